/** The list of people. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { devToken } from "../dev_token.js";
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

function begins(me: string, ...people: string[]): Terminal {
  const command = `node presence/presence.js ${me} ${people.join(" ")}`;
  return terminals.run(command, { HEARTLINE_URL: server.url });
}

test("people are seen to come, to go and to hide, also after a kill of the server", async () => {
  const ana = begins("ana", "bo", "cy");
  await ana.showsTogether("-- ana is connected --", "? bo", "? cy");
  const bo = begins("bo", "ana");
  await bo.shows("● ana is here");
  await ana.showsTogether("-- ana is connected --", "● bo is here", "? cy");

  const [after, afterOfBo] = [ana.lines.length, bo.lines.length];
  await server.kill();
  await bo.shows("-- bo is reconnecting --");
  await server.start();
  await ana.shows("-- ana is connected --", after);
  await bo.shows("-- bo is connected --", afterOfBo);

  expect(await bo.ends()).toBe(0);
  await ana.shows(/^○ bo was here at \d{4}-/, after);

  const answer = await fetch(`${server.url}/v1/presence/visibility`, {
    method: "PUT",
    headers: {
      Authorization: `Bearer ${await devToken(server.url, "bo")}`,
      "Content-Type": "application/json",
    },
    body: JSON.stringify({ visibility: "nobody" }),
  });
  expect(answer.status).toBe(200);
  await ana.shows("? bo", after);
  expect(await ana.ends()).toBe(0);
});

test("without people it says what to type", async () => {
  const terminal = terminals.run("node presence/presence.js ana");
  expect(await terminal.ends()).toBe(2);
  await terminal.shows("usage: node presence/presence.js ME PERSON…");
});
