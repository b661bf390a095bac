/** Asking for the pages of chats that are behind. */
import { BackOff } from "./back_off.js";
import type { Cursors, PageRange } from "./cursor.js";
import { type FrameSource, REQUEST_TIMEOUT_MS } from "./frame_source.js";
import type { ChatId, ClientFrame, ClientLimits, ErrorFrame } from "./protocol.gen.js";
import { judge } from "./verdict.js";

/**
 * Pages on their way at once, each of another chat. The server reads one at a time for a
 * connection; the others wait there, so that it never has to wait for the client.
 */
const IN_FLIGHT_MAX = 5;

/**
 * Bytes that a message takes in a page at most, except for content that JSON writes much longer.
 */
const MESSAGE_BYTES = 5000;

/** When to ask for a page. */
interface Want {
  at: number;
  /** The end of the pause after a refusal, which nothing shortens. */
  notBefore: number;
}

/** A page on its way. */
export interface Asked {
  chat_id: ChatId;
  range: PageRange;
  until: number;
}

/** The pages that one connection wants and waits for. */
export class Sync implements FrameSource {
  readonly #cursors: Cursors;
  readonly #hasGap: (chat_id: ChatId) => boolean;
  readonly #backOff: BackOff;
  /**
   * The chats that seem to be behind. Whether they still are is looked at when their time has come.
   */
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
   * A connection begins. A page must fit into what the server holds for it, beside what comes
   * meanwhile.
   */
  established(limits: ClientLimits): void {
    this.ended();
    const fitting = Math.floor(limits.outbox_bytes / 2 / MESSAGE_BYTES);
    this.#limit = Math.max(1, Math.min(100, fitting, limits.sync_page_messages));
  }

  /** The connection is over. The manifest of the next one tells again which chats are behind. */
  ended(): void {
    this.#wanted.clear();
    this.#inFlight.clear();
    this.#pausedUntil = 0;
  }

  /** A newer token is in force: what waited for it goes on. */
  tokenRefreshed(): void {
    this.#pausedUntil = 0;
  }

  /** A chat seems to be behind: ask at that time, unless it is asked for earlier anyway. */
  want(chat_id: ChatId, at: number): void {
    if ([...this.#inFlight.values()].some((asked) => asked.chat_id === chat_id)) return;
    const want = this.#wanted.get(chat_id);
    if (want === undefined) this.#wanted.set(chat_id, { at, notBefore: 0 });
    else want.at = Math.min(want.at, at);
  }

  /** A page brought nothing though something is missing: ask again, but not in a loop. */
  wantAfterPause(chat_id: ChatId, now: number): void {
    this.#wanted.set(chat_id, { at: now, notBefore: now + this.#backOff.next() });
  }

  /** The chat is no concern any more. */
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
   * The page to ask for now. A chat that has caught up meanwhile, or whose missing number is that
   * of a send under way, is passed over.
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

  /** A page came. Gives back what was asked, if it was asked here. */
  answered(request_id: string): Asked | undefined {
    const asked = this.#inFlight.get(request_id);
    this.#inFlight.delete(request_id);
    return asked;
  }

  /** A page brought something new. */
  progressed(): void {
    this.#backOff.reset();
  }

  /**
   * An error came. Answers the chat if it was about a page: that is asked for again, or if it is
   * refused for good, not before something new is seen in the chat.
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
