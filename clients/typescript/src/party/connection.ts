/** One socket with the subprotocol `graphql-transport-ws`, from its start to its end. */

import type { WebSocketConstructor, WebSocketLike } from "../connection.js";
import { PartyError, type RawError, errorOf } from "./error.js";
import type { Request } from "./documents.js";

/** How a connection ended. */
export interface Ending {
  readonly code: number;
  readonly reason: string;
}

/** The listener of a subscription. */
export interface Sink {
  /** An event. */
  next(data: Record<string, unknown>): void;
  /** The subscription has ended, or failed. Not called when the connection ends. */
  ended(error: PartyError | null): void;
}

/** The options of a connection. */
export interface ConnectionSettings {
  readonly url: string;
  readonly token: string | null;
  readonly WebSocket: WebSocketConstructor;
  /** The time limit for `connection_ack`. */
  readonly openTimeoutMs: number;
  /**
   * The silence after which the client sends a ping; after two more intervals the connection counts
   * as lost.
   */
  readonly silenceMs: number;
}

const SUBPROTOCOL = "graphql-transport-ws";

/** The ending when the server is silent: there is no close frame to read. */
const LOST: Ending = { code: 1006, reason: "silent" };

interface Operation extends Sink {
  lost(): void;
}

/** An open connection. It does not reconnect: open another one. */
export class PartyConnection {
  /** Resolves when the connection has ended. */
  readonly closed: Promise<Ending>;
  /** The options with which it was opened. */
  readonly token: string | null;
  readonly #socket: WebSocketLike;
  readonly #operations = new Map<string, Operation>();
  readonly #settle: (ending: Ending) => void;
  readonly #silenceMs: number;
  #alive: ReturnType<typeof setInterval>;
  #acknowledged: () => void = () => {};
  #asked = 0;
  #silences = 0;
  /** Whether an extra ping was sent and nothing has arrived since. */
  #isProbed = false;
  #isOver = false;

  private constructor(settings: ConnectionSettings) {
    let settle: (ending: Ending) => void = () => {};
    this.closed = new Promise((resolve) => (settle = resolve));
    this.#settle = settle;
    this.token = settings.token;
    const socket = new settings.WebSocket(settings.url, [SUBPROTOCOL]);
    this.#socket = socket;
    socket.onopen = () => {
      const payload = settings.token === null ? {} : { authToken: settings.token };
      this.#send({ type: "connection_init", payload });
    };
    socket.onmessage = ({ data }: { data: unknown }) => this.#hear(String(data));
    // The close event that follows gives the reason.
    socket.onerror = () => {};
    socket.onclose = ({ code, reason }: Ending) => this.#end({ code, reason });
    this.#silenceMs = settings.silenceMs;
    this.#alive = this.#listen();
  }

  /** Opens a connection. Returns the connection once it is acknowledged, or how it ended before. */
  static async open(settings: ConnectionSettings): Promise<PartyConnection | Ending> {
    const connection = new PartyConnection(settings);
    const acknowledged = new Promise<PartyConnection>((resolve) => {
      connection.#acknowledged = () => resolve(connection);
    });
    const patience = setTimeout(() => connection.#giveUp(), settings.openTimeoutMs);
    try {
      return await Promise.race([acknowledged, connection.closed]);
    } finally {
      clearTimeout(patience);
    }
  }

  /** Runs a query or a mutation; returns its data. */
  run<T>(request: Request, timeoutMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      let data: unknown;
      const settle = (error: PartyError | null) => {
        clearTimeout(patience);
        error ? reject(error) : resolve(data as T);
      };
      const sink = {
        next: (next: unknown) => (data = next),
        ended: (error: PartyError | null) => {
          const isEmpty = data === undefined;
          settle(error ?? (isEmpty ? unknown("INTERNAL_ERROR", "No answer came") : null));
        },
      };
      const lost = () => settle(unknown("CONNECTION_LOST", "The connection was lost"));
      const stop = this.subscribe(request, sink, lost);
      const patience = setTimeout(() => {
        stop();
        settle(unknown("TIMEOUT", "No answer came in time"));
      }, timeoutMs);
    });
  }

  /** Starts a subscription; returns a function that stops it. */
  subscribe(request: Request, sink: Sink, lost: () => void = () => {}): () => void {
    this.#asked += 1;
    const id = String(this.#asked);
    if (this.#isOver) {
      queueMicrotask(lost);
      return () => {};
    }
    this.#operations.set(id, { ...sink, lost });
    this.#send({ id, type: "subscribe", payload: request });
    return () => {
      if (this.#operations.delete(id)) {
        this.#send({ id, type: "complete" });
      }
    };
  }

  /**
   * Checks that the server is alive, with a short time limit, because this client was suspended.
   */
  probe(): void {
    // Repeated checks must not delay the end of a dead connection.
    if (this.#isOver || this.#isProbed) {
      return;
    }
    this.#isProbed = true;
    this.#silences = 2;
    // The current interval may end before an answer can arrive.
    clearInterval(this.#alive);
    this.#alive = this.#listen();
    this.#send({ type: "ping" });
  }

  /** Closes the connection. */
  close(): void {
    if (!this.#isOver) {
      this.#socket.close(1000);
      this.#end({ code: 1000, reason: "done" });
    }
  }

  #hear(text: string): void {
    this.#silences = 0;
    this.#isProbed = false;
    let message: { type?: string; id?: string; payload?: unknown };
    try {
      message = JSON.parse(text) as typeof message;
    } catch {
      return this.#giveUp();
    }
    const { type, id = "", payload } = message;
    const operation = this.#operations.get(id);
    switch (type) {
      case "connection_ack":
        return this.#acknowledged();
      case "ping":
        return this.#send({ type: "pong" });
      case "next":
        return operation && this.#next(id, operation, payload as Next);
      case "error":
        this.#operations.delete(id);
        return operation?.ended(errorOf(payload as RawError[]));
      case "complete":
        this.#operations.delete(id);
        return operation?.ended(null);
    }
  }

  #next(id: string, operation: Operation, { data, errors }: Next): void {
    if (!errors?.length) {
      return operation.next(data ?? {});
    }
    this.#operations.delete(id);
    operation.ended(errorOf(errors));
  }

  #listen(): ReturnType<typeof setInterval> {
    return setInterval(() => this.#tick(), this.#silenceMs);
  }

  /** Neither a lost network nor an idle server sends anything, so the client sends pings. */
  #tick(): void {
    this.#silences += 1;
    if (this.#silences > 2) {
      return this.#giveUp();
    }
    this.#send({ type: "ping" });
  }

  #giveUp(): void {
    // A peer that does not answer does not answer a close frame either: do not wait for it.
    this.#socket.close();
    this.#end(LOST);
  }

  #send(message: Record<string, unknown>): void {
    if (!this.#isOver) {
      try {
        this.#socket.send(JSON.stringify(message));
      } catch {
        // The socket is not open, or no longer; its close event reports that.
      }
    }
  }

  #end(ending: Ending): void {
    if (this.#isOver) {
      return;
    }
    this.#isOver = true;
    clearInterval(this.#alive);
    const operations = [...this.#operations.values()];
    this.#operations.clear();
    this.#settle(ending);
    for (const operation of operations) {
      operation.lost();
    }
  }
}

/** An error whose outcome is unknown. */
function unknown(code: PartyError["code"], message: string): PartyError {
  return new PartyError(code, message, { outcome: "unknown" });
}

interface Next {
  readonly data?: Record<string, unknown> | null;
  readonly errors?: readonly RawError[];
}
