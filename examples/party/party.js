/** A shared queue in a terminal. */
import { createInterface } from "node:readline";
import { Party } from "heartline/party";
import { WebSocket } from "ws";
import { devToken } from "../dev_token.js";

const [me, sessionId] = process.argv.slice(2);
if (!me) {
  console.error("usage: node party/party.js ME [SESSION]");
  process.exit(2);
}
const url = process.env["HEARTLINE_URL"] ?? "http://127.0.0.1:7400";
const party = new Party({ url, token: () => devToken(url, me), WebSocket });

let shown = "";
party.subscribe(() => {
  const { status, members, queue, current, pendingEdits } = party.state;
  const names = members.map(({ username }) => username).join(", ");
  const waiting = pendingEdits > 0 ? `; ${pendingEdits} on the way` : "";
  const items = queue.map(({ uuid, climb }, index) => {
    return `\n${uuid === current?.uuid ? ">" : " "} ${index + 1}. ${climb.name}`;
  });
  const lines = `-- ${status}: ${names}${waiting} --${items.join("")}`;
  // Some changes are not visible, such as a higher sequence.
  if (lines !== shown) console.log(lines);
  shown = lines;
});

/** @type {Record<string, (argument: string) => Promise<void>>} */
const COMMANDS = {
  add: (name) => party.add(itemOf(name)),
  remove: (number) => party.remove(at(number).uuid),
  top: (number) => party.reorder(at(number).uuid, 0),
  now: (number) => party.setCurrent(at(number)),
};

const joining = { boardPath: "/kilter/1/10/26_27/40", username: me };
await (sessionId ? party.join(sessionId, joining) : party.start({ queue: [] }, joining));
console.log(`Others join with: node party/party.js NAME ${party.state.sessionId}`);
console.log("Type: add NAME, remove NUMBER, top NUMBER, now NUMBER; Ctrl-D leaves.");

for await (const line of createInterface({ input: process.stdin })) {
  const [command = "", ...rest] = line.split(" ");
  // A rejected edit is already reverted: only the reason is left to show.
  await edit(command, rest.join(" ")).catch((error) => console.log(`no: ${error.message}`));
}
await party.leave();

/** @param {string} command @param {string} argument */
async function edit(command, argument) {
  const run = COMMANDS[command];
  if (run === undefined) throw new Error(`add, remove, top or now, not "${command}"`);
  await run(argument);
}

/** @param {string} number */
function at(number) {
  const item = party.state.queue[Number(number) - 1];
  if (item === undefined) throw new Error(`there is no item ${number}`);
  return item;
}

/** @param {string} name @returns {import("heartline/party").ClimbQueueItem} */
function itemOf(name) {
  const texts = { setter_username: me ?? "", description: "", frames: "", difficulty: "6a" };
  const figures = { angle: 40, ascensionist_count: 0, stars: 0, quality_average: "0" };
  const climb = { uuid: crypto.randomUUID(), name, ...texts, ...figures };
  const uuid = crypto.randomUUID();
  return { uuid, climb: { ...climb, difficulty_error: "0", litUpHoldsMap: {} } };
}
