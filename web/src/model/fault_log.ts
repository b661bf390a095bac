/** The log of injected faults and their effects. */
import { Observable } from "./observable.js";
import type { Frame, SocketEvent, SocketTap } from "./tapped_socket.js";

/** The kind of a line: an action of the user, a fault, the protocol's reaction, the recovery. */
export type Tone = "deed" | "fault" | "contract" | "good";

/** A line of the log. */
export interface Line {
  id: number;
  at: Date;
  tone: Tone;
  text: string;
}

/** The number of lines kept. */
const LINES_MAX = 200;

/** Texts for closing reasons. */
const REASONS: Record<string, string> = {
  token_expired: "the token expired and no new one arrived",
  slow_consumer: "the client read too slowly",
  rate_limited: "the client exceeded the rate limit for too long",
  heartbeat_timeout: "the client sent nothing for too long",
  session_replaced: "the same device connected again",
  session_ended: "an operator ended the connection",
  server_shutdown: "the server is shutting down",
};

/** The log, newest line last. */
export class FaultLog extends Observable {
  lines: readonly Line[] = [];
  #count = 0;
  /** Whether a fault was injected, so that events are logged. */
  #isListening = false;
  #closedAt: number | undefined;

  constructor(chat: SocketTap, party: SocketTap) {
    super();
    chat.listen((event) => this.#hearChat(event));
    party.listen((event) => this.#hearParty(event));
  }

  /** Logs the start of a fault. */
  begin(text: string): void {
    this.#isListening = true;
    this.write("deed", text);
  }

  write(tone: Tone, text: string): void {
    this.#count += 1;
    const line = { id: this.#count, at: new Date(), tone, text };
    this.lines = [...this.lines, line].slice(-LINES_MAX);
    this.changed();
  }

  clear(): void {
    this.lines = [];
    this.changed();
  }

  #hearChat(event: SocketEvent): void {
    if (!this.#isListening) return;
    switch (event.kind) {
      case "opening":
        this.#writePause("The client reconnects");
        break;
      case "closed":
        this.#closedAt = performance.now();
        this.write("fault", closedText(event.code, event.reason, event.isOurs));
        break;
      case "swallowed":
        this.write(
          "fault",
          `Message ${event.frame["sequence"]} was dropped before the client read it.`,
        );
        break;
      case "received":
        this.#hearFrame(event.frame);
        break;
      case "sent":
        this.#hearSent(event.frame);
    }
  }

  #hearFrame(frame: Frame): void {
    switch (frame.type) {
      case "connection_established":
        this.write(
          "good",
          `Reconnected as ${frame["connection_id"]}; the client compares every chat.`,
        );
        break;
      case "sync_response": {
        const count = (frame["messages"] as unknown[]).length;
        const what = count === 1 ? "One missing message arrived" : `${count} missing messages arrived`;
        this.write("good", `${what}, in order.`);
        break;
      }
      case "resync_required":
        this.write(
          "contract",
          `The server reports that messages may be missing (${frame["reason"]}).`,
        );
        break;
      case "token_expired": {
        const seconds = frame["grace_period_seconds"];
        const text = `The token has expired. For ${seconds} s messages arrive, but requests are rejected.`;
        this.write("contract", text);
        break;
      }
      case "token_refreshed":
        this.write("good", "The server accepted the new token, on the same connection.");
        break;
      case "connection_closing": {
        const reason = String(frame["reason"]);
        const words = REASONS[reason] ?? reason.replaceAll("_", " ");
        this.write("contract", `The server closes the connection: ${words} (${reason}).`);
        break;
      }
      case "error":
        if (frame["code"] === "SLOW_CONSUMER") {
          this.write("contract", "The server warns: SLOW_CONSUMER, the client reads too slowly.");
        }
    }
  }

  #hearSent(frame: Frame): void {
    if (frame.type === "sync_request") {
      this.write(
        "contract",
        `The client found a gap and requests the messages after ${frame["after_sequence"]}.`,
      );
    } else if (frame.type === "refresh_token")
      this.write("contract", "The client sends a new token.");
  }

  #hearParty(event: SocketEvent): void {
    if (!this.#isListening) return;
    if (event.kind === "swallowed") {
      const sequence = partyEvent(event.frame)?.["sequence"];
      this.write("fault", `Party event ${sequence} was dropped before the client read it.`);
    } else if (event.kind === "sent" && JSON.stringify(event.frame).includes("eventsReplay")) {
      this.write(
        "contract",
        "The client found a gap in the party's events and requests a replay.",
      );
    } else if (event.kind === "received" && hasReplay(event.frame)) {
      this.write(
        "good",
        "The missing party events arrived, and the hash of the queue matches again.",
      );
    }
  }

  #writePause(text: string): void {
    if (this.#closedAt === undefined) return;
    const seconds = (performance.now() - this.#closedAt) / 1000;
    this.#closedAt = undefined;
    this.write("contract", `${text}, after ${seconds.toFixed(1)} s of back-off.`);
  }
}

/** The event of a party's queue in a frame, if there is one. */
export function partyEvent(frame: Frame): Record<string, unknown> | undefined {
  const payload = frame["payload"] as { data?: Record<string, unknown> } | undefined;
  return payload?.data?.["queueUpdates"] as Record<string, unknown> | undefined;
}

function hasReplay(frame: Frame): boolean {
  const payload = frame["payload"] as { data?: Record<string, unknown> } | undefined;
  return payload?.data?.["eventsReplay"] !== undefined;
}

function closedText(code: number, reason: string, isOurs: boolean): string {
  if (isOurs) return "The socket ended without a close frame (close code 1006).";
  const why = reason === "" ? "" : `, reason “${reason}”`;
  return `The socket closed with code ${code}${why}.`;
}
