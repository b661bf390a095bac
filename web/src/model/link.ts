/** How the connection is doing, in words for a person. */
import type { Client } from "heartline";
import { Observable } from "./observable.js";
import type { SocketEvent, SocketTap } from "./tapped_socket.js";

/** What the indicator shows. */
export type LinkState = "connecting" | "live" | "degraded" | "reconnecting" | "offline" | "stopped";

/** The pauses between attempts double from the first of these to the second. */
const PAUSE_MIN_MS = 1000;
const PAUSE_MAX_MS = 16_000;

/** Why the library gives up, in words. */
const STOP_REASONS: Record<string, string> = {
  session_replaced: "this device was opened somewhere else",
  session_ended: "an operator ended this connection",
  unauthorized: "the server refuses the token",
  token_ended: "the token has ended",
  token_refused: "the server refuses the token",
};

/** The connection, as the page shows it. */
export class Link extends Observable {
  readonly #client: Client;
  #endings = 0;
  #askedMs = 0;
  /** About when the next attempt begins; the library keeps the exact moment to itself. */
  #nextAt = 0;

  constructor(client: Client, tap: SocketTap) {
    super();
    this.#client = client;
    tap.listen((event) => this.#hear(event));
    client.onState(() => {
      if (client.state === "connected") this.#endings = 0;
      this.changed();
    });
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

  /** What the server cannot do at the moment. */
  get degraded(): string[] {
    return this.#client.connection?.degraded ?? [];
  }

  /** Whether the library comes back only if somebody wants it to. */
  get isStopped(): boolean {
    return this.state === "stopped";
  }

  /** Whether there was a connection and is none. */
  get isAway(): boolean {
    return ["reconnecting", "offline", "stopped"].includes(this.state);
  }

  /** One short sentence. */
  get text(): string {
    const seconds = Math.ceil((this.#nextAt - performance.now()) / 1000);
    switch (this.state) {
      case "connecting":
        return "Connecting";
      case "live":
        return "Live";
      case "degraded":
        return `Live, without ${this.degraded.join(" and ")}`;
      case "reconnecting":
        return seconds > 0 ? `Reconnecting in ${seconds} s` : "Reconnecting";
      case "offline":
        return "Offline, still trying";
      case "stopped":
        return `Stopped: ${this.#stopReason}`;
    }
  }

  get #stopReason(): string {
    const reason = this.#client.stop_reason ?? "closed";
    return STOP_REASONS[reason] ?? reason.replaceAll("_", " ");
  }

  #hear(event: SocketEvent): void {
    if (event.kind === "received" && event.frame.type === "connection_closing") {
      this.#askedMs = Number(event.frame["reconnect_delay_ms"] ?? 0);
    }
    if (event.kind === "opening") this.#nextAt = 0;
    if (event.kind === "closed") {
      const pause = Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** this.#endings);
      this.#nextAt = performance.now() + (this.#askedMs > 0 ? this.#askedMs : pause);
      this.#endings += 1;
      this.#askedMs = 0;
    }
    if (event.kind !== "sent" && event.kind !== "received") this.changed();
  }
}
