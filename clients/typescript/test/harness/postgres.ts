/** A PostgreSQL of one's own. */
import { spawn } from "node:child_process";
import { chmodSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "./eventually.js";
import { freePort } from "./port.js";
import { Scratch, run } from "./process.js";

const VERSIONS = "/usr/lib/postgresql";

/** A cluster in a temporary directory on a free port of loopback, without passwords. */
export class Postgres {
  readonly port: number;
  readonly #scratch = new Scratch("postgres", "QUIT");

  private constructor(port: number) {
    this.port = port;
  }

  /** Starts a cluster and waits until it answers. */
  static async start(): Promise<Postgres> {
    const postgres = new Postgres(await freePort());
    await postgres.#start();
    return postgres;
  }

  /** Where a client finds it. */
  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres?sslmode=disable`;
  }

  /** Ends it for good and removes its files. */
  async remove(): Promise<void> {
    await this.#scratch.remove();
  }

  async #start(): Promise<void> {
    const owner = serverOwner();
    const home = this.#scratch.path;
    chmodSync(home, 0o777);
    const data = join(home, "data");
    const flags = ["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8"];
    run(program("initdb"), [...flags, "--no-locale", "--pgdata", data], { ...owner, cwd: home });
    const listen = ["listen_addresses=127.0.0.1", `port=${this.port}`];
    const settings = [...listen, "unix_socket_directories="].flatMap((setting) => ["-c", setting]);
    const child = spawn(program("postgres"), ["-D", data, ...settings], {
      ...owner,
      cwd: home,
      stdio: "ignore",
    });
    if (child.pid !== undefined) this.#scratch.note(child.pid);
    await eventually("PostgreSQL answers", () => {
      if (child.exitCode !== null) throw new Error("PostgreSQL ended");
      try {
        run(program("pg_isready"), ["--host=127.0.0.1", "--port", `${this.port}`]);
        return true;
      } catch {
        return false;
      }
    });
  }
}

function program(name: string): string {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS).sort().reverse() : [];
  const found = versions.map((version) => join(VERSIONS, version, "bin", name)).find(existsSync);
  return found ?? name;
}

/** PostgreSQL refuses to run as root. */
function serverOwner(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  return { uid: Number(run("id", ["-u", "postgres"])), gid: Number(run("id", ["-g", "postgres"])) };
}
