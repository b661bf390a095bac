/** A live list of users: online, offline with the last-seen time, or unknown. */
import { Client } from "heartline";
import { WebSocket } from "ws";
import { devToken } from "../dev_token.js";

const [me, ...people] = process.argv.slice(2);
if (!me || people.length === 0) {
  console.error("usage: node presence/presence.js ME PERSON…");
  process.exit(2);
}
const url = process.env["HEARTLINE_URL"] ?? "http://127.0.0.1:7400";
const client = new Client({ url, token: () => devToken(url, me), WebSocket });

/** @param {string} user_id */
function lineOf(user_id) {
  const { status, last_seen } = client.presence.get(user_id);
  if (status === "online") return `● ${user_id} is here`;
  if (status === "unknown") return `? ${user_id}`;
  return `○ ${user_id} ${last_seen ? `was here at ${last_seen}` : "is away"}`;
}

function show() {
  // Only a terminal is cleared; in a pipe one list follows the other.
  console.clear();
  console.log(`-- ${me} is ${client.state} --`);
  for (const user_id of people) console.log(lineOf(user_id));
}

client.onState(show);
client.presence.onChange(show);
client.presence.subscribe(people);
client.connect();
process.stdin.resume().once("end", () => client.close());
