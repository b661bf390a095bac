/** The golden file of the protocol crate, held against the TypeScript vocabulary. */
import { spawnSync } from "node:child_process";
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  CLOSE_REASONS,
  type CloseReason,
  PROTOCOL_VERSION,
  RETRYABLE_ERRORS,
  SUBPROTOCOL,
} from "../src/protocol.gen.js";
import { Scratch } from "./harness/process.js";

const HERE = join(import.meta.dirname, "..");

let scratch: Scratch;
beforeAll(() => {
  scratch = new Scratch("golden");
});
afterAll(() => scratch.remove());

interface Golden {
  subprotocol: string;
  protocol_version: number;
  client: { name: string; frame: object }[];
  server: { name: string; frame: object }[];
  errors: { code: string; retryable: boolean }[];
  closing_reasons: { reason: CloseReason; code: number; reconnect: string }[];
}

const root = join(HERE, "../..");
const golden = JSON.parse(
  readFileSync(join(root, "crates/protocol/golden/frames.json"), "utf8"),
) as Golden;

/** The compiler's output for these lines, in a file beside a copy of the vocabulary. */
function complaints(lines: string[]): string[] {
  copyFileSync(join(HERE, "src/protocol.gen.ts"), join(scratch.path, "protocol.gen.ts"));
  const head = 'import type { ClientFrame, ServerFrame } from "./protocol.gen.js";';
  writeFileSync(join(scratch.path, "golden.ts"), [head, ...lines].join("\n"));
  const flags = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--lib", "es5"];
  const modules = ["--module", "nodenext", "--types", ""];
  const compiler = join(HERE, "node_modules/.bin/tsc");
  const parameters = [...flags, ...modules, "golden.ts"];
  const { status, stdout } = spawnSync(compiler, parameters, {
    cwd: scratch.path,
    encoding: "utf8",
  });
  const found = stdout.split("\n").filter((line) => /error TS\d+/.test(line));
  // A compiler that did not even begin would complain of nothing.
  expect(status === 0).toBe(found.length === 0);
  return found;
}

function declared(kind: "ClientFrame" | "ServerFrame", frames: object[]): string[] {
  return frames.map((frame, number) => {
    return `export const ${kind}${number}: ${kind} = ${JSON.stringify(frame)};`;
  });
}

test("every frame of the golden file has its type, with no field more and none less", () => {
  const client = golden.client.map(({ frame }) => frame);
  const server = golden.server.map(({ frame }) => frame);
  const lines = [...declared("ClientFrame", client), ...declared("ServerFrame", server)];
  expect(lines.length).toBeGreaterThan(50);
  expect(complaints(lines)).toEqual([]);
});

test("a frame with a field too many, one too few, or another word is none", () => {
  const wrong = [
    { type: "ack", chat_id: "chat_1", last_acked_sequence: 1, hello: 1 },
    { type: "ack", chat_id: "chat_1" },
    { type: "acknowledge", chat_id: "chat_1" },
    { type: "typing", chat_id: "chat_1", is_typing: "yes" },
  ];
  expect(complaints(declared("ClientFrame", wrong)).length).toBe(wrong.length);
});

test("the tables are those of the golden file", () => {
  expect([SUBPROTOCOL, PROTOCOL_VERSION]).toEqual([golden.subprotocol, golden.protocol_version]);
  const retryable = golden.errors.filter((error) => error.retryable).map(({ code }) => code);
  expect(RETRYABLE_ERRORS).toEqual(retryable);
  const reasons = golden.closing_reasons.map(({ reason, code, reconnect }) => [
    reason,
    { code, reconnect },
  ]);
  expect(Object.entries(CLOSE_REASONS)).toEqual(reasons);
});
