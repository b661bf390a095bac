/** The page without a framework. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../clients/typescript/test/harness/port.js";
import { Browser } from "./harness/browser.js";
import { ChatPage } from "./harness/chat_page.js";
import { DevServer } from "./harness/dev_server.js";
import { Terminals } from "./harness/terminal.js";

let server: DevServer;
let terminals: Terminals;
let browser: Browser;
let page_url: string;
beforeAll(async () => {
  terminals = new Terminals();
  server = await DevServer.start({ HEARTLINE__SERVER__ALLOWED_ORIGINS: "http://127.0.0.1:8080" });
  const port = await freePort();
  page_url = `http://127.0.0.1:${port}`;
  browser = await Browser.start({ 7400: server.port, 8080: port });
  const environment = { HEARTLINE_SECRET: server.secret, PORT: `${port}` };
  await terminals.run("node browser/server.js", environment).shows(`The page is at ${page_url}`);
});
afterAll(async () => {
  await browser.close();
  await terminals.remove();
  await server.remove();
});

async function opens(me: string, other: string): Promise<ChatPage> {
  return new ChatPage(await browser.open(`http://127.0.0.1:8080/?me=${me}&with=${other}`));
}

test("two pages chat through a kill of the server and a reload", async () => {
  const [ana, bo] = await Promise.all([opens("ana", "bo"), opens("bo", "ana")]);
  await Promise.all([ana.is("connected"), bo.is("connected")]);
  await ana.says("hello <b>bo</b>");
  expect(await bo.shows(1)).toEqual(["ana: hello <b>bo</b>"]);
  await bo.says("hello ana");
  expect(await ana.shows(2)).toEqual(["ana: hello <b>bo</b>", "bo: hello ana"]);

  await server.kill();
  await ana.is("reconnecting");
  await ana.says("are you there?");
  expect(await ana.lines("waiting")).toEqual(["are you there?"]);
  await ana.keeps(1);
  await ana.page.reload();
  await ana.is("connecting");
  await server.start();
  const expected = ["ana: hello <b>bo</b>", "bo: hello ana", "ana: are you there?"];
  expect(await bo.shows(3)).toEqual(expected);
  expect(await ana.shows(3)).toEqual(expected);
  await bo.says("yes");
  expect(await ana.shows(4)).toEqual([...expected, "bo: yes"]);
  expect(await bo.lines("waiting")).toEqual([]);
  expect(browser.errors).toEqual([]);
});

test("a page that may not connect says why, or its console does", async () => {
  const refused = await opens("no%20id", "bo");
  await refused.is("token_refused");
  expect(browser.errors.splice(0)).toEqual(["the client has stopped: token_refused"]);
  // Asked for by its own port, the page is of an origin that the server was not told of.
  const foreign = new ChatPage(await browser.open(`${page_url}/?me=cy&with=bo`));
  const said = await foreign.page.waitForEvent("console", {
    predicate: (message) => message.text().includes("WebSocket"),
  });
  expect(said.text()).toContain("403");
  await foreign.is("connecting");
  await foreign.page.close();
});

test("its back end gives the files of the page and no others", async () => {
  const status = async (path: string) => (await fetch(`${page_url}${path}`)).status;
  for (const path of ["/", "/main.js", "/heartline/index.js", "/heartline/party/index.js"]) {
    expect(await status(path)).toBe(200);
  }
  const others = ["/server.js", "/heartline/..%2fpackage.json", "/heartline/../server.js"];
  for (const path of [...others, "/heartline/nothing.js", "//", "/%"]) {
    expect(await status(path)).toBe(404);
  }
  expect(await status("/")).toBe(200);
});

test("without a secret its back end says what is missing", async () => {
  const terminal = terminals.run("node browser/server.js", { HEARTLINE_SECRET: "" });
  expect(await terminal.ends()).toBe(2);
  await terminal.shows("HEARTLINE_SECRET must be the secret that the Heartline server knows");
});
