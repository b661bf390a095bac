/** The package as its users get it. */
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Scratch, exited, run } from "./harness/process.js";
import { Server } from "./harness/server.js";
import { token } from "./harness/token.js";

const HERE = join(import.meta.dirname, "..");

/** Bytes that the core, and party sessions, may cost a page. */
const CORE_BYTES_MAX = 15 * 1024;
const PARTY_BYTES_MAX = 12 * 1024;

let scratch: Scratch;
let server: Server;
beforeAll(async () => {
  scratch = new Scratch("package");
  server = await Server.start({ configuration: '[presence]\ndefault_visibility = "everyone"' });
});
afterAll(async () => {
  await server.remove();
  await scratch.remove();
});

test.each([
  ["src/index.ts", CORE_BYTES_MAX],
  ["src/party/index.ts", PARTY_BYTES_MAX],
])("%s is small, and needs nothing else", async (entry, bytesMax) => {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(HERE, entry)],
    bundle: true,
    minify: true,
    format: "esm",
    metafile: true,
    write: false,
  });
  const bytes = gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
  expect(bytes).toBeGreaterThan(1000);
  expect(bytes).toBeLessThanOrEqual(bytesMax);
  const foreign = Object.keys(metafile.inputs).filter((input) => input.includes("node_modules"));
  expect(foreign).toEqual([]);
});

test("what is packed can be installed, type-checked and run as the README says", async () => {
  const packed = join(scratch.path, "packed");
  const project = join(scratch.path, "project");
  for (const directory of [packed, project]) mkdirSync(directory);
  run("npm", ["pack", "--pack-destination", packed], { cwd: HERE });
  const [file = ""] = readdirSync(packed);
  const files = run("tar", ["tzf", join(packed, file)]).trim().split("\n");
  const unexpected = files.filter(
    (name) =>
      !/^package\/(dist\/.+\.(js|d\.ts)|README\.md|LICENSE|package\.json)$/.test(name),
  );
  expect(unexpected).toEqual([]);
  const entries = ["dist/index", "dist/party/index"];
  const code = entries.flatMap((entry) => [`${entry}.js`, `${entry}.d.ts`]);
  for (const name of ["LICENSE", "README.md", ...code]) expect(files).toContain(`package/${name}`);

  writeFileSync(join(project, "package.json"), '{ "type": "module", "private": true }');
  run("npm", ["install", "--offline", "--no-audit", join(packed, file)], { cwd: project });
  for (const name of ["ws", "@types"]) {
    symlinkSync(join(HERE, "node_modules", name), join(project, "node_modules", name));
  }
  const readme = readFileSync(join(HERE, "README.md"), "utf8");
  const block = /```ts\n([\s\S]*?)```/.exec(readme)?.[1] ?? "";
  expect(block.trim().split("\n").filter((line) => line !== "").length).toBeLessThanOrEqual(10);
  const program = `import { WebSocket } from "ws";
import type { Chat, ChatHandle, Presence, PresenceWatch } from "heartline";
import { Party, type PartyState } from "heartline/party";
Object.assign(globalThis, { WebSocket: globalThis.WebSocket ?? WebSocket });
const fetchToken = async () => process.env["TOKEN"] ?? "";
${block.replace("http://127.0.0.1:7400", server.url)}
const handle: ChatHandle = client.chat(chat_id);
const chat: Chat = await client.rest.getChat(handle.chat_id);
const presence: Presence = client.presence.get(chat.members[0]?.user_id ?? "");
const watch: PresenceWatch = client.presence;
watch.unsubscribe([presence.user_id]);
const party = new Party({ url: "${server.url}" });
const state: PartyState = await party.join("packed", { boardPath: "/kilter/1/10/26_27" });
console.log(\`a party is \${state.status}\`);
await party.leave();
await client.close();
`;
  writeFileSync(join(project, "main.ts"), program);
  const flags = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"];
  run(join(HERE, "node_modules/.bin/tsc"), [...flags, "main.ts"], { cwd: project });

  const child = spawn(process.execPath, ["main.js"], {
    cwd: project,
    env: { ...process.env, TOKEN: token("ana") },
    stdio: ["ignore", "pipe", "inherit"],
  });
  scratch.note(child.pid ?? 0);
  let output = "";
  child.stdout.on("data", (data) => (output += String(data)));
  expect(await exited(child)).toBe(0);
  expect(output).toContain("ana: hello");
  expect(output).toContain("stored as number 1");
  expect(output).toContain("a party is live");
});
