import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { build } from "esbuild";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Message } from "../src/index.js";
import { eventually, passes } from "./harness/eventually.js";
import { FakePage } from "./harness/page.js";
import { Scratch } from "./harness/process.js";
import { Proxy } from "./harness/proxy.js";
import { Server } from "./harness/server.js";
import { Stream } from "./harness/stream.js";
import { token } from "./harness/token.js";
import { User, isGapFree } from "./harness/user.js";

let server: Server;
let proxy: Proxy;
beforeAll(async () => {
  server = await Server.start({
    configuration: `
[limits]
send_rate = 1000
send_burst = 1000
[gateway]
heartbeat_interval = "1s"
heartbeat_timeout = "3s"
`,
  });
  proxy = await Proxy.to(() => server.port);
});
afterAll(async () => {
  await proxy.remove();
  await server.remove();
});

const users: User[] = [];
afterEach(async () => {
  for (const user of users.splice(0)) await user.close();
});

async function tab(user_id: string, url: string): Promise<{ user: User; page: FakePage }> {
  const page = new FakePage();
  const { window, document } = page;
  const user = await User.connected(user_id, url, { window, document });
  users.push(user);
  return { user, page };
}

test("a page that freezes leaves in order, and comes back with nothing missing", async () => {
  const { user: bo, page } = await tab("bo", server.url);
  const { user: ana } = await tab("ana", server.url);
  const stream = new Stream(ana, await ana.chatWith("bo"));
  await bo.hears(stream.chat_id, 5);
  for (const [sleep, wake] of [
    [() => page.freeze(), () => page.resume()],
    [() => page.tell("pagehide", { persisted: true }), () => page.tell("pageshow")],
  ] as const) {
    await bo.hears(stream.chat_id, bo.in(stream.chat_id).length + 3);
    sleep();
    expect(bo.client.state).toBe("asleep");
    const acks = bo.sent.filter((frame) => frame.type === "ack");
    expect(acks.at(-1)?.last_acked_sequence).toBe(bo.in(stream.chat_id).at(-1)?.sequence);
    const before = bo.in(stream.chat_id).length;
    await passes(700);
    expect(bo.in(stream.chat_id).length).toBe(before);
    wake();
    await bo.becomes("connected");
  }
  // A page that is not kept ends by itself; only hiding it changes nothing.
  page.tell("pagehide", { persisted: false });
  page.hide();
  expect(bo.client.state).toBe("connected");
  await stream.isHeardBy(bo, ana);
});

test("a network that comes back is used at once, and one that is gone is noticed", async () => {
  const { user: bo, page } = await tab("bo-far", proxy.url);
  proxy.down();
  await eventually("bo notices", () => bo.client.state === "reconnecting");
  // Let the pauses grow.
  await eventually("two attempts fail", () => proxy.accepted >= 3);
  page.tell("offline");
  expect(bo.client.state).toBe("offline");
  proxy.up();
  page.tell("online");
  await bo.becomes("connected");
  proxy.blackHole();
  page.tell("offline");
  await eventually("it is left", () => bo.client.state === "reconnecting");
  proxy.upForNewOnes();
  page.tell("online");
  await bo.becomes("connected");
});

test("a process that stood still for longer than the timeout misses nothing", async () => {
  const scratch = new Scratch("tab");
  const bundle = join(import.meta.dirname, "../node_modules/.cache/heartline/tab.mjs");
  const entry = join(import.meta.dirname, "harness/tab.ts");
  const format = { format: "esm", platform: "node", packages: "external" } as const;
  await build({ entryPoints: [entry], bundle: true, outfile: bundle, ...format });
  const child = spawn(process.execPath, [bundle, server.url, token("bo-tab")]);
  scratch.note(child.pid ?? 0);
  const messages: Message[] = [];
  const states: string[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => messages.push(JSON.parse(line)));
  createInterface({ input: child.stderr }).on("line", (line) => states.push(line));
  const { user: ana } = await tab("ana-tab", server.url);
  const stream = new Stream(ana, await ana.chatWith("bo-tab"));
  await eventually("it hears", () => messages.length > 10);
  for (const seconds of [1, 6]) {
    process.kill(child.pid ?? 0, "SIGSTOP");
    await eventually("it stands still", () =>
      /^State:\s+T/m.test(readFileSync(`/proc/${child.pid}/status`, "utf8")),
    );
    await passes(seconds * 1000);
    process.kill(child.pid ?? 0, "SIGCONT");
    const before = messages.length;
    await eventually("it goes on", () => messages.length > before + 10);
  }
  const words = await stream.end();
  await eventually("it has all", () => messages.length >= words.length);
  await passes(300);
  expect(messages.map(({ content }) => content)).toEqual(words);
  expect(isGapFree(messages)).toBe(true);
  child.stdin.end();
  await scratch.remove();
});
