/** What happened after a fault, in plain words. */
import { Observable } from "./observable.js";
import type { Frame, SocketEvent, SocketTap } from "./tapped_socket.js";

/** What a line tells of: a deed, what went wrong, what the contracts did, that all is well. */
export type Tone = "deed" | "fault" | "contract" | "good";

/** A line of the log. */
export interface Line {
  id: number;
  at: Date;
  tone: Tone;
  text: string;
}

/** Lines that are kept. */
const LINES_MAX = 200;

/** Why the server closes, in words. */
const REASONS: Record<string, string> = {
  token_expired: "the token has ended and no newer one came",
  slow_consumer: "nothing was read for too long",
  rate_limited: "too much was sent for too long",
  heartbeat_timeout: "nothing was heard for too long",
  session_replaced: "the same device connected again",
  session_ended: "an operator ended the connection",
  server_shutdown: "the server is going down",
};

/** The log, newest line last. */
export class FaultLog extends Observable {
  lines: readonly Line[] = [];
  #count = 0;
  /** Whether something is being tried, so that what happens is of interest. */
  #isListening = false;
  #closedAt: number | undefined;

  constructor(chat: SocketTap, party: SocketTap) {
    super();
    chat.listen((event) => this.#hearChat(event));
    party.listen((event) => this.#hearParty(event));
  }

  /** Something is tried. */
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
        this.#writePause("The client tries again");
        break;
      case "closed":
        this.#closedAt = performance.now();
        this.write("fault", closedWords(event.code, event.reason, event.isOurs));
        break;
      case "swallowed":
        this.write(
          "fault",
          `Message ${event.frame["sequence"]} came and was lost before the client saw it.`,
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
          `Connected again as ${frame["connection_id"]}; the client compares every chat.`,
        );
        break;
      case "sync_response": {
        const count = (frame["messages"] as unknown[]).length;
        const what = count === 1 ? "One missing message came" : `${count} missing messages came`;
        this.write("good", `${what}, in order.`);
        break;
      }
      case "resync_required":
        this.write(
          "contract",
          `The server says that something may be missing (${frame["reason"]}).`,
        );
        break;
      case "token_expired": {
        const seconds = frame["grace_period_seconds"];
        const text = `The token has ended. For ${seconds} s messages come, requests are refused.`;
        this.write("contract", text);
        break;
      }
      case "token_refreshed":
        this.write("good", "The server took the newer token, without a new connection.");
        break;
      case "connection_closing": {
        const reason = String(frame["reason"]);
        const words = REASONS[reason] ?? reason.replaceAll("_", " ");
        this.write("contract", `The server says that it closes, and why: ${words} (${reason}).`);
        break;
      }
      case "error":
        if (frame["code"] === "SLOW_CONSUMER") {
          this.write("contract", "The server warns: SLOW_CONSUMER, read faster or be cut.");
        }
    }
  }

  #hearSent(frame: Frame): void {
    if (frame.type === "sync_request") {
      this.write(
        "contract",
        `The client noticed a gap and asks for what follows message ${frame["after_sequence"]}.`,
      );
    } else if (frame.type === "refresh_token")
      this.write("contract", "The client offers a newer token.");
  }

  #hearParty(event: SocketEvent): void {
    if (!this.#isListening) return;
    if (event.kind === "swallowed") {
      const sequence = partyEvent(event.frame)?.["sequence"];
      this.write("fault", `Party event ${sequence} came and was lost before the client saw it.`);
    } else if (event.kind === "sent" && JSON.stringify(event.frame).includes("eventsReplay")) {
      this.write(
        "contract",
        "The client noticed a gap in the party's events and asks for a replay.",
      );
    } else if (event.kind === "received" && hasReplay(event.frame)) {
      this.write(
        "good",
        "The missing party events came, and the hash of the queue is right again.",
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

/** The event of a party's queue that a frame carries, if it does. */
export function partyEvent(frame: Frame): Record<string, unknown> | undefined {
  const payload = frame["payload"] as { data?: Record<string, unknown> } | undefined;
  return payload?.data?.["queueUpdates"] as Record<string, unknown> | undefined;
}

function hasReplay(frame: Frame): boolean {
  const payload = frame["payload"] as { data?: Record<string, unknown> } | undefined;
  return payload?.data?.["eventsReplay"] !== undefined;
}

function closedWords(code: number, reason: string, isOurs: boolean): string {
  if (isOurs) return "The socket is gone: no close frame, no reason (close code 1006).";
  const why = reason === "" ? "" : `, reason “${reason}”`;
  return `The socket closed with code ${code}${why}.`;
}
