/**
 * A process and a directory of its own, both gone when the tests are, however they went.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Longer than anything that is waited for; a test that gets here has failed. */
export const PATIENCE_MS = 90_000;

/** Runs when whoever started it is gone: its end of a pipe is closed then. */
const JANITOR = `
cat > /dev/null
for pid in $(cat "$1/pids" 2> /dev/null); do
    kill -CONT "$pid" 2> /dev/null
    kill -"$2" "$pid" 2> /dev/null
done
[ "$2" = KILL ] || sleep 1
rm -rf "$1"
`;

/** A temporary directory that a janitor removes, with the processes noted in it. */
export class Scratch {
  readonly path: string;
  readonly #janitor: ChildProcess;

  /** `signal` is how its processes are ended: by name, without SIG. */
  constructor(name: string, signal = "KILL") {
    this.path = mkdtempSync(join(tmpdir(), `heartline-${name}-`));
    this.#janitor = spawn("sh", ["-c", JANITOR, "janitor", this.path, signal], {
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
    });
    this.#janitor.unref();
    (this.#janitor.stdin as unknown as { unref(): void }).unref();
  }

  /** Notes a process that ends with this directory. */
  note(pid: number): void {
    execFileSync("sh", ["-c", `echo ${pid} >> "$0/pids"`, this.path]);
  }

  /** Ends everything now and waits for it. */
  async remove(): Promise<void> {
    const gone = new Promise((resolve) => this.#janitor.once("exit", resolve));
    this.#janitor.ref();
    this.#janitor.stdin?.end();
    await gone;
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** Runs a program to its end; it must succeed. */
export function run(
  program: string,
  parameters: string[],
  options: { uid?: number; gid?: number; cwd?: string } = {},
): string {
  return execFileSync(program, parameters, { encoding: "utf8", stdio: "pipe", ...options });
}

/** Waits for the exit of a process. */
export async function exited(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  return await new Promise((resolve) => child.once("exit", (code) => resolve(code)));
}
