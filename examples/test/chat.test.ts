/** The chat in a terminal. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { DevServer } from "./harness/dev_server.js";
import { freePort } from "../../clients/typescript/test/harness/port.js";
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

async function begins(me: string, other: string): Promise<Terminal> {
  const terminal = terminals.run(`node chat/chat.js ${me} ${other}`, { HEARTLINE_URL: server.url });
  await terminal.shows(`You are ${me}. Type, and ${other} reads it; Ctrl-D ends.`);
  return terminal;
}

/** The messages, in the order in which they were shown. */
function said(terminal: Terminal): string[] {
  return terminal.lines.filter((line) => /^(ana|bo): /.test(line));
}

test("what is typed through a kill of the server is shown to both once and in order", async () => {
  const [ana, bo] = await Promise.all([begins("ana", "bo"), begins("bo", "ana")]);
  ana.types("hello bo");
  await bo.shows("ana: hello bo");
  bo.types("hello ana");
  await ana.shows("bo: hello ana");

  const expected = ["ana: hello bo", "bo: hello ana"];
  const types = (first: number, last: number) => {
    for (let number = first; number <= last; number += 1) {
      ana.types(`number ${number}`);
      expected.push(`ana: number ${number}`);
    }
  };
  types(1, 20);
  // Some of them are on their way now; some are stored and their answers are not back.
  await bo.shows("ana: number 2");
  await server.kill();
  await Promise.all([ana.shows("(reconnecting)"), bo.shows("(reconnecting)")]);
  types(21, 25);
  await server.start();
  await Promise.all([ana.shows("ana: number 25"), bo.shows("ana: number 25")]);

  bo.types("all of it");
  expected.push("bo: all of it");
  await Promise.all([ana.shows("bo: all of it"), bo.shows("bo: all of it")]);
  expect(said(ana)).toEqual(expected);
  expect(said(bo)).toEqual(expected);

  ana.types("good night");
  expect(await ana.ends()).toBe(0);
  await bo.shows("ana: good night");
  expect(await bo.ends()).toBe(0);
  // A later reader receives every message, once.
  const later = await begins("ana", "bo");
  await later.shows("ana: good night");
  expect(said(later)).toEqual([...expected, "ana: good night"]);
  expect(await later.ends()).toBe(0);
});

test("where nobody listens, or for a name that is none, it says why it does not connect", async () => {
  const environment = { HEARTLINE_URL: `http://127.0.0.1:${await freePort()}` };
  const nowhere = terminals.run("node chat/chat.js ana bo", environment);
  await nowhere.shows(/no connection yet: .*fetch failed/);
  const nameless = terminals.run("node chat/chat.js 'ana maria' bo", { HEARTLINE_URL: server.url });
  await nameless.shows(/no connection yet: .*user_id/);
});

test("without names it says what to type", async () => {
  const terminal = terminals.run("node chat/chat.js");
  expect(await terminal.ends()).toBe(2);
  await terminal.shows("usage: node chat/chat.js ME OTHER");
});
