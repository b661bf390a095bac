/** The code in docs/client.md against the package as it is built. */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Scratch, run } from "../../clients/typescript/test/harness/process.js";
import { DevServer } from "./harness/dev_server.js";
import { blocksOf, textOf } from "./harness/document.js";

const EXAMPLES = join(import.meta.dirname, "..");

/** The declarations that the guide's blocks take from each other and from the application. */
const CONTEXT = `
type Client = import("heartline").Client;
type Message = import("heartline").Message;
type TokenNeed = import("heartline").TokenNeed;
type Party = import("heartline/party").Party;
declare const HeartlineError: typeof import("heartline").HeartlineError;
declare const client: Client;
declare const chat: import("heartline").ChatHandle;
declare const storage: import("heartline").IndexedDbStorage;
declare const chat_id: string;
declare const text: string;
declare const token: (need: TokenNeed) => Promise<string>;
declare const field: HTMLInputElement;
declare const party: Party;
declare const PartyError: typeof import("heartline/party").PartyError;
declare const baseBoardPath: typeof import("heartline/party").baseBoardPath;
declare const item: import("heartline/party").ClimbQueueItem;
declare function showBanner(text: string): void;
declare function showStopped(reason: import("heartline").StopReason | undefined): void;
declare function showWaiting(text: string): {
  settle(sequence: number): void;
  fail(code: string): void;
};
declare function showSending(drafts: readonly import("heartline").Draft[]): void;
declare function showNotSent(content: string, code: string): void;
declare function showMessage(sequence: number, sender: string, content: string, own: boolean): void;
declare function showChat(chat_id: string, name: string | undefined, unread?: number): void;
declare function hideChat(chat_id: string): void;
declare function showTick(user_id: string, last_acked_sequence: number | undefined): void;
declare function showDot(user_id: string, colour: string, last_seen?: string): void;
declare function showTyping(user_id: string, is_typing: boolean): void;
declare function showNotice(...what: unknown[]): void;
declare function showParty(state: import("heartline/party").PartyState): void;
declare module "react" {
  type Subscribe = (changed: () => void) => () => void;
  export function useSyncExternalStore<T>(subscribe: Subscribe, get: () => T): T;
}
declare module "vue" {
  export function onUnmounted(stop: () => void): void;
  export function shallowRef<T>(value: T): { value: T };
}
`;

let scratch: Scratch;
beforeAll(() => {
  scratch = new Scratch("client-guide");
  symlinkSync(join(EXAMPLES, "node_modules"), join(scratch.path, "node_modules"));
  writeFileSync(join(scratch.path, "package.json"), '{ "type": "module", "private": true }');
});
afterAll(async () => await scratch.remove());

/** The compiler's output for these blocks, each a module of its own; empty if all are correct. */
function complaints(name: string, pieces: string[]): string {
  const directory = join(scratch.path, name);
  mkdirSync(directory);
  writeFileSync(join(directory, "context.d.ts"), CONTEXT);
  pieces.forEach((piece, index) => {
    writeFileSync(join(directory, `piece_${index + 1}.ts`), `${piece}\nexport {};\n`);
  });
  const compilerOptions = {
    target: "ES2022",
    lib: ["ES2023", "DOM", "DOM.Iterable"],
    module: "NodeNext",
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: true,
    types: ["node"],
    noEmit: true,
  };
  const project = { compilerOptions, include: ["*.ts"] };
  writeFileSync(join(directory, "tsconfig.json"), JSON.stringify(project));
  try {
    run(join(EXAMPLES, "node_modules/.bin/tsc"), ["-p", directory]);
    return "";
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

test("every piece of the guide is right by the types of the package", () => {
  const pieces = blocksOf("client.md").filter(({ language }) => language === "ts");
  expect(pieces.length).toBeGreaterThan(15);
  expect(textOf("client.md").match(/^```\w/gm)?.length).toBe(pieces.length);
  expect(complaints("guide", pieces.map(({ code }) => code))).toBe("");
});

test("a piece that is wrong would be noticed", () => {
  const wrong = ["client.chat(chat_id).sent(text);", "const state: 'ready' = client.state;"];
  const said = complaints("wrong", wrong);
  expect(said).toContain("piece_1.ts");
  expect(said).toContain("piece_2.ts");
});

test("a server takes the settings that the guide names for tests", async () => {
  const settings = [...textOf("client.md").matchAll(/`(HEARTLINE__\w+)=(\w+)`/g)];
  expect(settings.length).toBeGreaterThanOrEqual(3);
  const named = settings.map(([, name = "", value = ""]): [string, string] => [name, value]);
  const server = await DevServer.start(Object.fromEntries(named));
  await server.remove();
});

test("the guide names every state, reason to stop and code of the library", () => {
  const guide = textOf("client.md");
  const union = (file: string, type: string) => {
    const path = join(EXAMPLES, `../clients/typescript/dist/${file}.d.ts`);
    const types = readFileSync(path, "utf8").replace(/\/\*[\s\S]*?\*\//g, "");
    const written = new RegExp(`export type ${type} =([^;]+);`).exec(types)?.[1] ?? "";
    return [...written.matchAll(/"(\w+)"/g)].map(([, name = ""]) => name);
  };
  const names = [
    ...union("socket", "SocketState"),
    ...union("policy", "StopReason"),
    ...union("error", "ClientErrorCode"),
    ...union("party/state", "PartyStatus"),
  ];
  expect(names.length).toBeGreaterThan(25);
  const isNamed = (name: string) => guide.includes(`\`${name}\``) || guide.includes(`"${name}"`);
  expect(names.filter((name) => !isNamed(name))).toEqual([]);
});
