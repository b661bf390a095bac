/** Requests the pages of chats that are behind. */
import { BackOff } from "./back_off.js";
import type { Cursors, PageRange } from "./cursor.js";
import { type FrameSource, REQUEST_TIMEOUT_MS } from "./frame_source.js";
import type { ChatId, ClientFrame, ClientLimits, ErrorFrame } from "./protocol.gen.js";
import { judge } from "./verdict.js";

/**
 * The number of page requests under way, each for a different chat. The server handles one per
 * connection at a time; the others queue there, so that the server never waits for the client.
 */
const IN_FLIGHT_MAX = 5;

/** The maximum size of a message in a page, except for content that grows in JSON. */
const MESSAGE_BYTES = 5000;

/** When to request a page. */
interface Want {
  at: number;
  /** The end of the delay after a rejection; nothing shortens it. */
  notBefore: number;
}

/** A requested page. */
export interface Asked {
  chat_id: ChatId;
  range: PageRange;
  until: number;
}

/** The pages that a connection needs and waits for. */
export class Sync implements FrameSource {
  readonly #cursors: Cursors;
  readonly #hasGap: (chat_id: ChatId) => boolean;
  readonly #backOff: BackOff;
  /** The chats that seem to be behind. Each is checked again when its request is due. */
  readonly #wanted = new Map<ChatId, Want>();
  readonly #inFlight = new Map<string, Asked>();
  #pausedUntil = 0;
  #requests = 0;
  #limit = 100;

  constructor(cursors: Cursors, hasGap: (chat_id: ChatId) => boolean, backOff: BackOff) {
    this.#cursors = cursors;
    this.#hasGap = hasGap;
    this.#backOff = backOff;
  }

  /**
   * A connection was opened. A page must fit into the server's buffer for it, beside new pushes.
   */
  established(limits: ClientLimits): void {
    this.ended();
    const fitting = Math.floor(limits.outbox_bytes / 2 / MESSAGE_BYTES);
    this.#limit = Math.max(1, Math.min(100, fitting, limits.sync_page_messages));
  }

  /** The connection has ended. The manifest of the next one lists the chats that are behind. */
  ended(): void {
    this.#wanted.clear();
    this.#inFlight.clear();
    this.#pausedUntil = 0;
  }

  /** A newer token is valid: requests that waited for it continue. */
  tokenRefreshed(): void {
    this.#pausedUntil = 0;
  }

  /** A chat seems to be behind: schedules a request, unless an earlier one is scheduled. */
  want(chat_id: ChatId, at: number): void {
    if ([...this.#inFlight.values()].some((asked) => asked.chat_id === chat_id)) return;
    const want = this.#wanted.get(chat_id);
    if (want === undefined) this.#wanted.set(chat_id, { at, notBefore: 0 });
    else want.at = Math.min(want.at, at);
  }

  /** A page was empty although messages are missing: requests it again after a delay. */
  wantAfterPause(chat_id: ChatId, now: number): void {
    this.#wanted.set(chat_id, { at: now, notBefore: now + this.#backOff.next() });
  }

  /** Removes a chat. */
  forget(chat_id: ChatId): void {
    this.#wanted.delete(chat_id);
  }

  dueAt(now: number): number {
    for (const [request_id, asked] of this.#inFlight) {
      if (asked.until > now) continue;
      this.#inFlight.delete(request_id);
      this.wantAfterPause(asked.chat_id, now);
    }
    const untils = [...this.#inFlight.values()].map((asked) => asked.until);
    const wants = [...this.#wanted.values()].map(dueAt);
    const asks = wants.map((at) => Math.max(at, this.#pausedUntil));
    return Math.min(...untils, ...(this.#inFlight.size < IN_FLIGHT_MAX ? asks : []));
  }

  /**
   * Returns the page to request now. Skips chats that have caught up, or whose missing sequence is
   * that of an unanswered send.
   */
  next(now: number): ClientFrame | undefined {
    if (this.#inFlight.size >= IN_FLIGHT_MAX || this.#pausedUntil > now) return undefined;
    const due = [...this.#wanted].filter(([, want]) => dueAt(want) <= now);
    for (const [chat_id] of due.sort(([, one], [, other]) => dueAt(one) - dueAt(other))) {
      this.#wanted.delete(chat_id);
      if (this.#hasGap(chat_id)) return this.#ask(chat_id, now);
    }
    return undefined;
  }

  /** Takes a page; returns its request, if it was made here. */
  answered(request_id: string): Asked | undefined {
    const asked = this.#inFlight.get(request_id);
    this.#inFlight.delete(request_id);
    return asked;
  }

  /** A page brought new messages. */
  progressed(): void {
    this.#backOff.reset();
  }

  /**
   * Handles an error; returns the chat if the error belongs to a page. The page is requested again,
   * or, if it was rejected for good, only after a new message in the chat.
   */
  refused(error: ErrorFrame, now: number): ChatId | undefined {
    const chat_id = this.answered(error.request_id ?? "")?.chat_id;
    if (chat_id === undefined) return undefined;
    const verdict = judge(error, this.#backOff);
    if (verdict.kind !== "final") {
      const notBefore = now + verdict.pauseMs;
      if (verdict.kind === "pause_all") this.#pausedUntil = Math.max(this.#pausedUntil, notBefore);
      this.#wanted.set(chat_id, { at: now, notBefore });
    }
    return chat_id;
  }

  #ask(chat_id: ChatId, now: number): ClientFrame {
    const after = this.#cursors.reached(chat_id);
    const range = { after, highestSeen: this.#cursors.highestSeen(chat_id) };
    const request_id = `sync-${++this.#requests}`;
    this.#inFlight.set(request_id, { chat_id, range, until: now + REQUEST_TIMEOUT_MS });
    return { type: "sync_request", request_id, chat_id, after_sequence: after, limit: this.#limit };
  }
}

function dueAt(want: Want): number {
  return Math.max(want.at, want.notBefore);
}
