/** The state of the connection, as text. */
import type { Client } from "heartline";
import { Observable } from "./observable.js";

/** The states of the indicator. */
export type LinkState = "connecting" | "live" | "degraded" | "reconnecting" | "offline" | "stopped";

/** Texts for stop reasons. */
const STOP_REASONS: Record<string, string> = {
  session_replaced: "this device connected elsewhere",
  session_ended: "an operator ended this connection",
  token_ended: "the token has expired",
  token_refused: "the server rejected the token: it is expired or signed with another secret",
};

/** The connection, as the page shows it. */
export class Link extends Observable {
  readonly #client: Client;

  constructor(client: Client) {
    super();
    this.#client = client;
    client.onState(() => this.changed());
    client.onNextAttempt(() => this.changed());
  }

  get state(): LinkState {
    switch (this.#client.state) {
      case "idle":
      case "connecting":
        return "connecting";
      case "connected":
        return this.degraded.length > 0 ? "degraded" : "live";
      case "reconnecting":
        return "reconnecting";
      case "offline":
      case "asleep":
        return "offline";
      default:
        return "stopped";
    }
  }

  /** The parts of the server that do not work at the moment. */
  get degraded(): string[] {
    return this.#client.connection?.degraded ?? [];
  }

  /** Retries at once. */
  retry(): void {
    if (this.isStopped) void this.#client.connect();
    else this.#client.retryNow();
  }

  /** Whether the library reconnects only on request. */
  get isStopped(): boolean {
    return this.state === "stopped";
  }

  /** Whether only another token helps. */
  get needsToken(): boolean {
    const reason = this.#client.stop_reason ?? "";
    return this.isStopped && ["token_ended", "token_refused"].includes(reason);
  }

  /** Whether the connection was lost. */
  get isAway(): boolean {
    return ["reconnecting", "offline", "stopped"].includes(this.state);
  }

  /** The state as a short text. */
  get text(): string {
    switch (this.state) {
      case "connecting":
        return "Connecting";
      case "live":
        return "Live";
      case "degraded":
        return `Live, without ${this.degraded.join(" and ")}`;
      case "reconnecting":
        return "Reconnecting";
      case "offline":
        return "Offline, still trying";
      case "stopped":
        return `Stopped: ${this.#stopReason}`;
    }
  }

  /** Seconds until the next attempt; undefined during an attempt, or when none is needed. */
  get waitSeconds(): number | undefined {
    const seconds = Math.ceil(((this.#client.next_attempt_at ?? 0) - Date.now()) / 1000);
    return seconds > 0 ? seconds : undefined;
  }

  get #stopReason(): string {
    const reason = this.#client.stop_reason ?? "closed";
    return STOP_REASONS[reason] ?? reason.replaceAll("_", " ");
  }
}
