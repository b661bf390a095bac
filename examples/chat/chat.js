/** A direct chat in a terminal: sends each typed line and prints each message. */
import { createInterface } from "node:readline";
import { Client } from "heartline";
import { WebSocket } from "ws";
import { chatWith } from "../chat_with.js";
import { devToken } from "../dev_token.js";

const [me, other] = process.argv.slice(2);
if (!me || !other) {
  console.error("usage: node chat/chat.js ME OTHER");
  process.exit(2);
}
const url = process.env["HEARTLINE_URL"] ?? "http://127.0.0.1:7400";

const client = new Client({ url, token: () => devToken(url, me), backlog: "all", WebSocket });
client.onState((state) => console.log(`(${state})`));
client.onNextAttempt((at) => {
  if (at && client.last_error) console.log(`(no connection yet: ${client.last_error})`);
});
await client.connect();

const chat = await chatWith(client, other);
chat.onMessage((message) => console.log(`${message.sender_id}: ${message.content}`));
console.log(`You are ${me}. Type, and ${other} reads it; Ctrl-D ends.`);

/** @type {Promise<unknown>[]} */
const sends = [];
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "") continue;
  // `send` resolves when the server has stored the message, also after reconnects.
  sends.push(chat.send(line).catch((error) => console.log(`not sent, ${error.code}: ${line}`)));
}
await Promise.all(sends);
await client.close();
