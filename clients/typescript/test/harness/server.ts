/** A real server process. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { eventually } from "./eventually.js";
import { freePort } from "./port.js";
import { Scratch, exited } from "./process.js";
import { SECRET } from "./token.js";

/** The binary under test. */
export const BINARY =
  process.env["HEARTLINE_BIN"] ??
  join(import.meta.dirname, "../../../../target/debug/heartline");

/** The options of a test server. */
export interface ServerOptions {
  /** More configuration: whole sections in TOML. */
  configuration?: string;
  /** Variables of its environment, such as `HEARTLINE__LIMITS__SEND_RATE`. */
  environment?: Record<string, string>;
}

/** A running `heartline serve` with files of its own. */
export class Server {
  /** The port of loopback that it listens on; it keeps it when it is started again. */
  port = 0;
  /** The log of every run so far. */
  readonly log: string[] = [];
  readonly #scratch = new Scratch("server");
  readonly #options: ServerOptions;
  #child: ChildProcess | undefined;

  private constructor(options: ServerOptions) {
    this.#options = options;
    const configuration = `
[auth]
hmac_secret = "${SECRET}"
[metrics]
listen = "main"
${options.configuration ?? ""}`;
    writeFileSync(join(this.#scratch.path, "heartline.toml"), configuration);
  }

  /** Starts a server on a free port and waits until it serves. */
  static async start(options: ServerOptions = {}): Promise<Server> {
    if (!existsSync(BINARY)) throw new Error(`there is no ${BINARY}: set HEARTLINE_BIN`);
    const server = new Server(options);
    server.port = await freePort();
    await server.start();
    return server;
  }

  /** `127.0.0.1:PORT`. */
  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Where its HTTP is. */
  get url(): string {
    return `http://${this.address}`;
  }

  /** The process id. */
  get pid(): number {
    const pid = this.#child?.pid;
    if (pid === undefined) throw new Error("the server does not run");
    return pid;
  }

  /** Starts it again on its files and its port. */
  async start(): Promise<void> {
    const configuration = join(this.#scratch.path, "heartline.toml");
    const listen = `127.0.0.1:${this.port}`;
    const child = spawn(BINARY, ["serve", "--listen", listen, "--config", configuration], {
      stdio: ["ignore", "ignore", "pipe"],
      env: {
        ...process.env,
        HEARTLINE__SERVER__DATA_DIR: join(this.#scratch.path, "data"),
        ...this.#options.environment,
      },
    });
    this.#child = child;
    if (child.pid !== undefined) this.#scratch.note(child.pid);
    const first = this.log.length;
    createInterface({ input: child.stderr }).on("line", (line) => this.log.push(line));
    this.port = await eventually(`the server listens: ${this.log.join("\n")}`, () => {
      if (child.exitCode !== null) throw new Error(`it ended: ${this.log.join("\n")}`);
      const line = this.log.slice(first).find((line) => line.includes("listening"));
      const port = line?.match(/address=\S+:(\d+)/)?.[1];
      return port === undefined ? undefined : Number(port);
    });
    await eventually("the server is ready", async () => {
      const answer = await fetch(`${this.url}/readyz`).catch(() => undefined);
      return answer?.ok === true;
    });
  }

  /** Ends it by a signal and waits for its end; answers the exit code. */
  async end(signal: "SIGKILL" | "SIGTERM" = "SIGKILL"): Promise<number | null> {
    const child = this.#child;
    if (child === undefined) return null;
    child.kill(signal);
    const code = await exited(child);
    this.#child = undefined;
    return code;
  }

  /** Stops every thread of the process where it is. */
  async freeze(): Promise<void> {
    process.kill(this.pid, "SIGSTOP");
    await eventually("the process stands still", () =>
      /^State:\s+T/m.test(readFileSync(`/proc/${this.pid}/status`, "utf8")),
    );
  }

  /** Lets a frozen process go on. */
  thaw(): void {
    process.kill(this.pid, "SIGCONT");
  }

  /** The value of a metric; zero if it is not there yet. */
  async metric(name: string): Promise<number> {
    const answer = await fetch(`${this.url}/metrics`);
    const line = (await answer.text()).split("\n").find((line) => line.startsWith(`${name} `));
    return line === undefined ? 0 : Number(line.slice(name.length + 1));
  }

  /** Ends it for good and removes its files. */
  async remove(): Promise<void> {
    await this.end();
    await this.#scratch.remove();
  }
}
