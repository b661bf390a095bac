/** A real development server, with files of its own. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** The binary under test. */
const BINARY =
  process.env["HEARTLINE_BIN"] ?? join(import.meta.dirname, "../../../target/debug/heartline");
/** How long it may take to serve. */
const START_TIMEOUT_MS = 20_000;

/** A connection, as the server tells operators. */
export interface Connection {
  connection_id: string;
  device_id: string;
}

/** A running `heartline dev`. */
export interface Running {
  /** Where it is. */
  url: string;
  /** Ends it and removes its files. */
  remove(): Promise<void>;
}

/** Starts a server on a free port; `configuration` is TOML over the defaults of development. */
export async function startServer(configuration: string): Promise<Running> {
  if (!existsSync(BINARY)) throw new Error(`there is no ${BINARY}: set HEARTLINE_BIN`);
  const directory = mkdtempSync(join(tmpdir(), "heartline-page-test-"));
  const file = join(directory, "heartline.toml");
  writeFileSync(file, configuration);
  const data = join(directory, "data");
  const parameters = ["dev", "--data-dir", data, "--listen", "127.0.0.1:0", "--config", file];
  const child = spawn(BINARY, parameters, { stdio: ["ignore", "ignore", "pipe"] });
  const end = () => {
    child.kill("SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  };
  // A run that is cut short must not leave its server behind.
  process.once("exit", end);
  const remove = async () => {
    process.removeListener("exit", end);
    const ended = new Promise((resolve) => child.once("exit", resolve));
    if (child.exitCode === null && child.kill("SIGKILL")) await ended;
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    return { url: await listening(child), remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** The requests of tests to the server. */
export class Server {
  #service: string | undefined;

  constructor(readonly url: string) {}

  /** A token. */
  async token(user_id: string, scope?: string): Promise<string> {
    const body = { user_id, ...(scope === undefined ? {} : { scope }) };
    const { token } = await this.#ask<{ token: string }>("POST", "/dev/token", body, undefined);
    return token;
  }

  /** Asks as the application's back end. */
  async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    this.#service ??= await this.token("tests", "service");
    return await this.#ask<T>(method, path, body, this.#service);
  }

  /** Asks as a user. */
  async askAs<T>(user_id: string, method: string, path: string, body?: unknown): Promise<T> {
    return await this.#ask<T>(method, path, body, await this.token(user_id));
  }

  /** Makes a chat of a user with others; answers its id. */
  async chat(user_id: string, member_ids: string[], name?: string): Promise<string> {
    const type = name === undefined ? "direct" : "group";
    const body = { type, member_ids, ...(name === undefined ? {} : { name }) };
    return (await this.askAs<{ chat_id: string }>(user_id, "POST", "/v1/chats", body)).chat_id;
  }

  /** Sends a message in somebody's name. */
  async send(sender_id: string, chat_id: string, content: string): Promise<void> {
    const client_message_id = crypto.randomUUID();
    await this.ask("POST", `/v1/chats/${chat_id}/messages`, {
      sender_id,
      client_message_id,
      content,
    });
  }

  /** The stored messages of a chat, as one of its members sees them. */
  async stored(user_id: string, chat_id: string): Promise<string[]> {
    const path = `/v1/chats/${chat_id}/messages?limit=200`;
    const page = await this.askAs<{ items: { content: string }[] }>(user_id, "GET", path);
    return page.items.map((message) => message.content);
  }

  /** The open connections of a user. */
  async connections(user_id: string): Promise<Connection[]> {
    const path = `/v1/admin/users/${user_id}/connections`;
    return (await this.ask<{ items: Connection[] }>("GET", path)).items;
  }

  async #ask<T>(
    method: string,
    path: string,
    body: unknown,
    token: string | undefined,
  ): Promise<T> {
    const answer = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }
}

/** Waits until the server says where it listens. */
function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const log: string[] = [];
    const fail = () => reject(new Error(`the server did not start:\n${log.join("\n")}`));
    const timer = setTimeout(fail, START_TIMEOUT_MS);
    child.once("exit", fail);
    if (child.stderr === null) return fail();
    createInterface({ input: child.stderr }).on("line", (line) => {
      if (log.length < 100) log.push(line);
      const address = /listening\b.*address=(\S+)/.exec(line)?.[1];
      if (address === undefined) return;
      clearTimeout(timer);
      resolve(`http://${address}`);
    });
  });
}
