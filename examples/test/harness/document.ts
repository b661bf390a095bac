/** A document of this project, and the code in it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const DOCS = join(import.meta.dirname, "../../../docs");

/** A block of code. */
export interface Block {
  /** The language after the back ticks, such as `sh`. */
  language: string;
  code: string;
  /** The file that the last line before it names in back ticks, if it does. */
  file: string | undefined;
}

/** The text of a document in `docs`. */
export function textOf(name: string): string {
  return readFileSync(join(DOCS, name), "utf8");
}

/** The blocks of code of a document in `docs`, in their order. */
export function blocksOf(name: string): Block[] {
  const pattern = /(.*)\n\n```(\w+)\n([\s\S]*?)```\n/g;
  return [...textOf(name).matchAll(pattern)].map(([, before = "", language = "", code = ""]) => {
    const file = /`([\w.-]+\.\w+)`:$/.exec(before)?.[1];
    return { language, code, file };
  });
}

/** The block of a file; there must be one. */
export function blockOf(name: string, file: string): string {
  const found = blocksOf(name).find((block) => block.file === file);
  if (found === undefined) throw new Error(`docs/${name} has no block for ${file}`);
  return found.code;
}
