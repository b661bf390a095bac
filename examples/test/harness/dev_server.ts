/** A real `heartline dev`, as whoever tries an example starts it. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../../../clients/typescript/test/harness/eventually.js";
import { freePort } from "../../../clients/typescript/test/harness/port.js";
import { Scratch, exited } from "../../../clients/typescript/test/harness/process.js";
import { BINARY } from "../../../clients/typescript/test/harness/server.js";

/** A development server with files and a port of its own. */
export class DevServer {
  readonly #scratch = new Scratch("dev-server");
  readonly #environment: Record<string, string>;
  #child: ChildProcess | undefined;

  private constructor(
    readonly port: number,
    environment: Record<string, string>,
  ) {
    this.#environment = environment;
  }

  /** Starts one and waits until it serves. */
  static async start(environment: Record<string, string> = {}): Promise<DevServer> {
    if (!existsSync(BINARY)) throw new Error(`there is no ${BINARY}: set HEARTLINE_BIN`);
    const server = new DevServer(await freePort(), environment);
    await server.start();
    return server;
  }

  /** Where it is. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The secret with which the server signs tokens. */
  get secret(): string {
    return readFileSync(join(this.#scratch.path, "data/dev_secret"), "utf8").trim();
  }

  /** Starts it again on its files and its port. */
  async start(): Promise<void> {
    const data = join(this.#scratch.path, "data");
    const parameters = ["dev", "--data-dir", data, "--listen", `127.0.0.1:${this.port}`];
    const child = spawn(BINARY, parameters, {
      env: { ...process.env, ...this.#environment },
      stdio: "ignore",
    });
    this.#child = child;
    if (child.pid !== undefined) this.#scratch.note(child.pid);
    await eventually("the server is ready", async () => {
      if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}`);
      const answer = await fetch(`${this.url}/readyz`).catch(() => undefined);
      return answer?.ok === true;
    });
  }

  /** `kill -9`. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    child.kill("SIGKILL");
    await exited(child);
  }

  /** Ends it for good and removes its files. */
  async remove(): Promise<void> {
    await this.kill();
    await this.#scratch.remove();
  }
}
