/** Follows docs/quick-start.md word by word. */
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freePort } from "../../clients/typescript/test/harness/port.js";
import { Scratch, run } from "../../clients/typescript/test/harness/process.js";
import { BINARY } from "../../clients/typescript/test/harness/server.js";
import { Browser } from "./harness/browser.js";
import { ChatPage } from "./harness/chat_page.js";
import { blockOf, blocksOf, textOf } from "./harness/document.js";
import { type Terminal, Terminals } from "./harness/terminal.js";

const DOCUMENT = "quick-start.md";
const REPOSITORY = join(import.meta.dirname, "../..");
const FILES = ["server.js", "index.html", "main.js"];
/** Slow commands, or commands that need a registry: `scripts/typescript` runs them before. */
const DONE_ALREADY = "cargo build --release\nnpm install --prefix clients/typescript\n";

let scratch: Scratch;
let terminals: Terminals;
beforeAll(() => {
  scratch = new Scratch("quick-start");
  terminals = new Terminals();
});
afterAll(async () => {
  await terminals.remove();
  await scratch.remove();
});

/** A repository in which everything is done that is not done here. */
function repository(): string {
  const repository = join(scratch.path, "heartline");
  mkdirSync(join(repository, "target/release"), { recursive: true });
  symlinkSync(BINARY, join(repository, "target/release/heartline"));
  const library = "clients/typescript";
  cpSync(join(REPOSITORY, library), join(repository, library), {
    recursive: true,
    filter: (path) => !/\/(node_modules|dist|test)$/.test(path),
  });
  const modules = join(library, "node_modules");
  symlinkSync(join(REPOSITORY, modules), join(repository, modules));
  return repository;
}

/** Begins the application; answers its directory. */
function begin(commands: string): string {
  const settings = "export npm_config_audit=false npm_config_offline=true";
  const script = `set -e\n${settings}\n${commands}pwd`;
  const printed = run("bash", ["-c", script], { cwd: repository() });
  return printed.trim().split("\n").at(-1) ?? "";
}

async function serves(command: string, port: number, directory: string): Promise<Terminal> {
  // Two of these may run on one machine, so the port is not the one of the document.
  const own = `${command.trim()} --listen 127.0.0.1:${port}`;
  const server = terminals.run(own, {}, directory);
  await server.shows(/^Heartline is listening on /);
  return server;
}

test("two people chat as it says, and nothing is lost when the server is killed", async () => {
  const commands = blocksOf(DOCUMENT).filter(({ language }) => language === "sh");
  expect(commands.length).toBe(4);
  const [build = "", application = "", serve = "", present = ""] = commands.map(({ code }) => code);
  expect(build).toBe(DONE_ALREADY);
  const directory = begin(application);
  for (const file of FILES) writeFileSync(join(directory, file), blockOf(DOCUMENT, file));
  const [port, page_port] = [await freePort(), await freePort()];
  let server = await serves(serve, port, directory);
  const back_end = terminals.run(present.trim(), { PORT: `${page_port}` }, directory);
  await back_end.shows(/^The page is at /);

  const browser = await Browser.start({ 7400: port, 8080: page_port });
  try {
    const addresses = [...textOf(DOCUMENT).matchAll(/<(http:\S+\?me=\S+)>/g)];
    const urls = addresses.map(([, url = ""]) => url);
    expect(urls.length).toBe(2);
    const pages = await Promise.all(urls.map(async (url) => new ChatPage(await browser.open(url))));
    const [ana, bo] = pages as [ChatPage, ChatPage];
    await Promise.all(pages.map((page) => page.is("connected")));
    await ana.says("hello");
    expect(await bo.shows(1)).toEqual(["ana: hello"]);

    await server.kill();
    await bo.is("reconnecting");
    await bo.says("hello ana");
    expect(await bo.lines("waiting")).toEqual(["hello ana"]);
    server = await serves(serve, port, directory);
    expect(await ana.shows(2)).toEqual(["ana: hello", "bo: hello ana"]);
    expect(await bo.shows(2)).toEqual(["ana: hello", "bo: hello ana"]);
    expect(browser.errors).toEqual([]);
  } finally {
    await browser.close();
  }
});

test("its files are those of the example", () => {
  const files = blocksOf(DOCUMENT).flatMap(({ file }) => file ?? []);
  expect(files).toEqual(FILES);
  for (const file of FILES) {
    const path = join(REPOSITORY, "examples/browser", file);
    expect(blockOf(DOCUMENT, file)).toBe(readFileSync(path, "utf8"));
  }
});
