/** A program in a terminal: somebody types, and reads what it prints. */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { eventually } from "../../../clients/typescript/test/harness/eventually.js";
import { Scratch, exited } from "../../../clients/typescript/test/harness/process.js";

const EXAMPLES = join(import.meta.dirname, "../..");

/** The terminals of one file of tests; whatever runs in them ends with the file. */
export class Terminals {
  readonly #scratch = new Scratch("terminals");

  /** Runs a line, as it is typed, in a directory, that of the examples unless given. */
  run(
    command: string,
    environment: Record<string, string> = {},
    directory: string = EXAMPLES,
  ): Terminal {
    // The program takes the place of the shell, so that whoever ends one ends the other.
    const child = spawn("sh", ["-c", `exec env ${command}`], {
      cwd: directory,
      env: { ...process.env, ...environment },
    });
    if (child.pid !== undefined) this.#scratch.note(child.pid);
    return new Terminal(command, child);
  }

  /** Ends everything. */
  async remove(): Promise<void> {
    await this.#scratch.remove();
  }
}

/** One program. */
export class Terminal {
  /** Every line that it printed. */
  readonly lines: string[] = [];
  readonly #child: ChildProcessWithoutNullStreams;

  constructor(
    readonly command: string,
    child: ChildProcessWithoutNullStreams,
  ) {
    this.#child = child;
    // A test that waits in vain shows the program's own error output.
    for (const input of [child.stdout, child.stderr]) {
      createInterface({ input }).on("line", (line) => this.lines.push(line));
    }
    // A program that has ended reads no more; its end is what tests look at.
    child.stdin.on("error", () => {});
  }

  /** Types a line. */
  types(line: string): void {
    this.#child.stdin.write(`${line}\n`);
  }

  /** Waits until a line, after the first so many, is what is asked for; answers it. */
  async shows(what: string | RegExp, after = 0): Promise<string> {
    const isIt = (line: string) => (typeof what === "string" ? line === what : what.test(line));
    return await this.#waitsFor(`a line ${what}`, () => this.lines.slice(after).find(isIt));
  }

  /** Waits until these lines stand there one after the other. */
  async showsTogether(...lines: string[]): Promise<void> {
    const wanted = `\n${lines.join("\n")}\n`;
    await this.#waitsFor(wanted, () => `\n${this.lines.join("\n")}\n`.includes(wanted));
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await exited(this.#child);
  }

  /** Ends its input, as Ctrl-D does, and answers how it ended. */
  async ends(): Promise<number | null> {
    this.#child.stdin.end();
    return await exited(this.#child);
  }

  async #waitsFor<T>(what: string, ask: () => T | undefined | false): Promise<T> {
    try {
      return await eventually(`${this.command} prints ${what}`, ask);
    } catch (error) {
      throw new Error(`${String(error)}\nIt printed:\n${this.lines.join("\n")}`);
    }
  }
}
