/** The golden file of the protocol crate, held against the TypeScript vocabulary. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, test } from "vitest";
import {
  CLOSE_REASONS,
  ERROR_CODES,
  PROTOCOL_VERSION,
  SUBPROTOCOL,
} from "../src/protocol.gen.js";

interface Golden {
  subprotocol: string;
  protocol_version: number;
  client: { name: string; frame: object }[];
  server: { name: string; frame: object }[];
  errors: { code: string }[];
  closing_reasons: { reason: string }[];
}

const root = join(import.meta.dirname, "../../..");
const golden = JSON.parse(
  readFileSync(join(root, "crates/protocol/golden/frames.json"), "utf8"),
) as Golden;

/** What the compiler says of these lines, in a file beside the vocabulary. */
function complaints(lines: string[]): string[] {
  const path = join(import.meta.dirname, "../src/golden.ts");
  const text = [
    'import type { ClientFrame, ServerFrame } from "./protocol.gen.js";',
    ...lines,
  ].join("\n");
  const options: ts.CompilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    lib: ["lib.es5.d.ts"],
    types: [],
    skipLibCheck: true,
  };
  const host = ts.createCompilerHost(options);
  const readSource = host.getSourceFile.bind(host);
  host.getSourceFile = (name, ...rest) =>
    name === path
      ? ts.createSourceFile(name, text, ts.ScriptTarget.ES2022)
      : readSource(name, ...rest);
  const fileExists = host.fileExists.bind(host);
  host.fileExists = (name) => name === path || fileExists(name);
  const program = ts.createProgram([path], options, host);
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, " "));
}

function declared(kind: "ClientFrame" | "ServerFrame", frames: object[]): string[] {
  return frames.map((frame, number) => {
    return `export const ${kind}${number}: ${kind} = ${JSON.stringify(frame)};`;
  });
}

test("every frame of the golden file has the type that it says, no field more and none less", () => {
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
  const errors = golden.errors.map(({ code, ...rest }) => [code, rest]);
  expect(Object.entries(ERROR_CODES)).toEqual(errors);
  const reasons = golden.closing_reasons.map(({ reason, ...rest }) => [reason, rest]);
  expect(Object.entries(CLOSE_REASONS)).toEqual(reasons);
});
