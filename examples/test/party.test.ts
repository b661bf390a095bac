/** The shared queue. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { DevServer } from "./harness/dev_server.js";
import { type Terminal, Terminals } from "./harness/terminal.js";

let server: DevServer;
let terminals: Terminals;
beforeAll(async () => {
  terminals = new Terminals();
  server = await DevServer.start();
});
afterAll(async () => {
  await terminals.remove();
  await server.remove();
});

function begins(parameters: string): Terminal {
  return terminals.run(`node party/party.js ${parameters}`, { HEARTLINE_URL: server.url });
}

test("two people edit one queue, also across a kill of the server", async () => {
  const ana = begins("ana");
  const invitation = await ana.shows(/^Others join with: /);
  const sessionId = invitation.split(" ").at(-1) ?? "";
  const bo = begins(`bo ${sessionId}`);
  await ana.shows("-- live: ana, bo --");
  await bo.shows("-- live: ana, bo --");

  ana.types("add Warm up");
  await bo.shows("  1. Warm up");
  bo.types("add Big dyno");
  await ana.showsTogether("-- live: ana, bo --", "  1. Warm up", "  2. Big dyno");
  ana.types("top 2");
  await bo.showsTogether("-- live: ana, bo --", "  1. Big dyno", "  2. Warm up");
  bo.types("now 1");
  await ana.showsTogether("-- live: ana, bo --", "> 1. Big dyno", "  2. Warm up");

  await server.kill();
  await Promise.all([ana.shows(/^-- reconnecting/), bo.shows(/^-- reconnecting/)]);
  ana.types("add Meanwhile");
  await ana.shows(/^-- reconnecting: .*; 1 on the way --$/);
  await server.start();
  const queue = ["> 1. Big dyno", "  2. Warm up", "  3. Meanwhile"];
  await bo.showsTogether("-- live: ana, bo --", ...queue);
  await ana.showsTogether("-- live: ana, bo --", ...queue);

  bo.types("remove 2");
  const shorter = ["> 1. Big dyno", "  2. Meanwhile"];
  await ana.showsTogether("-- live: ana, bo --", ...shorter);
  bo.types("remove 9");
  await bo.shows("no: there is no item 9");
  bo.types("dance");
  await bo.shows('no: add, remove, top or now, not "dance"');
  expect(await bo.ends()).toBe(0);
  await ana.showsTogether("-- live: ana --", ...shorter);
  expect(await ana.ends()).toBe(0);
});

test("without a name it says what to type", async () => {
  const terminal = terminals.run("node party/party.js");
  expect(await terminal.ends()).toBe(2);
  await terminal.shows("usage: node party/party.js ME [SESSION]");
});
