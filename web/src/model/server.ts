/** The requests of this page to its server without the client library: node data and console. */
import { uuid } from "./uuid.js";

/** The server behind this page. */
export interface ServerNode {
  version: string;
  node_id: string;
  /** How users sign in: by any name in development, otherwise by a token. */
  sign_in: "name" | "token";
}

/** The parameters of a token request. */
export interface TokenRequest {
  user_id: string;
  device_id?: string;
  scope?: string;
  ttl_seconds?: number;
}

/** A node of the cluster. */
export interface ClusterNode {
  node_id: string;
  name: string;
  planes: string[];
  connections: number;
  started_at: string;
  lease_ends_at: string;
}

/** An open connection, as operators see it. */
export interface OpenConnection {
  connection_id: string;
  user_id: string;
  device_id: string;
  kind: string;
  connected_at: string;
  node_id?: string;
  outbox?: { messages: number; bytes: number };
}

/** The time limit of a request. */
const TIMEOUT_MS = 10_000;

/** An error that the server returned. */
export class ServerRefusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** The URL of a socket. */
export function socketUrl(path: string): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
}

/** Requests the data of the node that serves this page. */
export async function askNode(): Promise<ServerNode> {
  return (await (await ask("/page/node.json")).json()) as ServerNode;
}

/** Requests a token from the development server. */
export async function askToken(request: TokenRequest): Promise<string> {
  const answer = await ask("/dev/token", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
  });
  return ((await answer.json()) as { token: string }).token;
}

/** The requests that need a token with the scope `service`. */
export class Operator {
  readonly #token: () => Promise<string>;

  constructor(token: () => Promise<string>) {
    this.#token = token;
  }

  /** Every metric of this node, as OpenMetrics text. */
  async metrics(): Promise<string> {
    return await (await this.#ask("/v1/admin/metrics")).text();
  }

  /** The connections of this node, fullest outbox first. */
  async connections(limit: number): Promise<OpenConnection[]> {
    return await this.#list(`/v1/admin/connections?limit=${limit}`);
  }

  /** The connections of one user, on every node. */
  async connectionsOf(user_id: string): Promise<OpenConnection[]> {
    return await this.#list(`/v1/admin/users/${encodeURIComponent(user_id)}/connections`);
  }

  /** The nodes of the cluster. */
  async nodes(): Promise<ClusterNode[]> {
    return await this.#list("/v1/admin/nodes");
  }

  /** Ends a connection. */
  async end(connection_id: string): Promise<void> {
    const path = `/v1/admin/connections/${encodeURIComponent(connection_id)}`;
    await this.#ask(path, { method: "DELETE" });
  }

  /** Sends a message as any user. */
  async sendAs(sender_id: string, chat_id: string, content: string): Promise<void> {
    const client_message_id = uuid();
    const path = `/v1/chats/${encodeURIComponent(chat_id)}/messages`;
    await this.#post(path, { sender_id, client_message_id, content });
  }

  /** Pushes an event to all devices of a user. */
  async push(user_id: string, name: string, data: unknown): Promise<void> {
    await this.#post("/v1/push", { user_ids: [user_id], name, data });
  }

  async #list<T>(path: string): Promise<T[]> {
    return ((await (await this.#ask(path)).json()) as { items: T[] }).items;
  }

  async #post(path: string, body: unknown): Promise<void> {
    const headers = { "Content-Type": "application/json" };
    await this.#ask(path, { method: "POST", headers, body: JSON.stringify(body) });
  }

  async #ask(path: string, init: RequestInit = {}): Promise<Response> {
    const Authorization = `Bearer ${await this.#token()}`;
    return await ask(path, { ...init, headers: { ...init.headers, Authorization } });
  }
}

async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const answer = await fetch(path, { ...init, signal }).catch((cause) => {
    // Browsers have different messages for this failure.
    throw new Error("the server did not answer", { cause });
  });
  if (answer.ok) return answer;
  const body = (await answer.json().catch(() => ({}))) as { error?: { message?: string } };
  throw new ServerRefusal(answer.status, body.error?.message ?? `HTTP ${answer.status}`);
}
