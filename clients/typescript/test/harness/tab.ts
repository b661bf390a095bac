/** A process that stands for a tab: it prints every message as a line, until its input ends. */
import { WebSocket } from "ws";
import { Client, type WebSocketConstructor } from "../../src/index.js";

const [url = "", token = ""] = process.argv.slice(2);
const client = new Client({
  url,
  token,
  backlog: "all",
  WebSocket: WebSocket as unknown as WebSocketConstructor,
});
client.onMessage((message) => {
  process.stdout.write(`${JSON.stringify(message)}\n`);
});
client.onState((state) => process.stderr.write(`${state}\n`));
await client.connect();
process.stdin.resume().once("end", () => void client.close());
