/** A Redis of one's own. */
import { type ChildProcess, spawn } from "node:child_process";
import { connect } from "node:net";
import { eventually } from "./eventually.js";
import { freePort } from "./port.js";
import { Scratch, exited } from "./process.js";

/** A server without persistence on a free port of loopback. */
export class Redis {
  readonly port: number;
  readonly #scratch = new Scratch("redis");
  #child: ChildProcess | undefined;

  private constructor(port: number) {
    this.port = port;
  }

  /** Starts a server and waits until it answers. */
  static async start(): Promise<Redis> {
    const redis = new Redis(await freePort());
    await redis.start();
    return redis;
  }

  /** Where a client finds it. */
  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Starts it again, empty, on its port. */
  async start(): Promise<void> {
    const settings = ["--bind", "127.0.0.1", "--port", `${this.port}`, "--save", ""];
    const child = spawn("redis-server", [...settings, "--dir", this.#scratch.path], {
      stdio: "ignore",
    });
    this.#child = child;
    if (child.pid !== undefined) this.#scratch.note(child.pid);
    await eventually("Redis answers", async () => {
      if (child.exitCode !== null) throw new Error("Redis ended");
      return await answersPing(this.port);
    });
  }

  /** Kills it. */
  async end(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    child.kill("SIGKILL");
    await exited(child);
  }

  /** Ends it for good and removes its files. */
  async remove(): Promise<void> {
    await this.end();
    await this.#scratch.remove();
  }
}

function answersPing(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
    socket.once("data", (data) => {
      resolve(data.toString().startsWith("+PONG"));
      socket.destroy();
    });
    socket.once("error", () => resolve(false));
  });
}
