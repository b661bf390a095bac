/**
 * The messages without a definite answer. One message per chat is sent at a time, so that each chat
 * keeps its order.
 */
import { BackOff } from "./back_off.js";
import { type StoredDraft, keyOf } from "./draft.js";
import { type FrameSource, NEVER, REQUEST_TIMEOUT_MS } from "./frame_source.js";
import { Pace } from "./pace.js";
import {
  type ChatId,
  type ClientFrame,
  type ClientLimits,
  type ErrorFrame,
  type MessageAck,
} from "./protocol.gen.js";
import { judge } from "./verdict.js";

/**
 * The number of messages sent at once, each of a different chat; well below the server's limit of
 * pending requests.
 */
const IN_FLIGHT_MAX = 32;

interface Entry {
  draft: StoredDraft;
  notBefore: number;
  /** The current attempt. */
  sent: { request_id: string; until: number; above: number } | undefined;
}

/** A rejected message. */
export interface SendRefused {
  draft: StoredDraft;
  /** Whether the message was definitely not stored; if not, it stays in the outbox. */
  isFinal: boolean;
}

/** The messages without a definite answer. */
export class Outbox implements FrameSource {
  readonly #highestSeen: (chat_id: ChatId) => number;
  readonly #backOff: BackOff;
  /** The messages of each chat in order; no queue is empty. */
  readonly #chats = new Map<ChatId, Entry[]>();
  #inFlight = 0;
  #pausedUntil = 0;
  #attempts = 0;
  #pace = new Pace();

  constructor(highestSeen: (chat_id: ChatId) => number, backOff: BackOff) {
    this.#highestSeen = highestSeen;
    this.#backOff = backOff;
  }

  /** Adds the next message of its chat. */
  push(draft: StoredDraft): void {
    const queue = this.#chats.get(draft.chat_id) ?? [];
    queue.push({ draft, notBefore: 0, sent: undefined });
    this.#chats.set(draft.chat_id, queue);
  }

  /** A connection was opened, with these limits. */
  established(limits: ClientLimits): void {
    this.ended();
    this.#pace = new Pace(limits.send_rate, limits.send_burst);
  }

  /** The connection has ended. Unanswered messages are read from the storage again. */
  ended(): void {
    this.#chats.clear();
    this.#inFlight = 0;
    this.#pausedUntil = 0;
  }

  /** A newer token is valid: messages that waited for it continue. */
  tokenRefreshed(): void {
    this.#pausedUntil = 0;
  }

  dueAt(now: number): number {
    let dueAt = NEVER;
    let expiresAt = NEVER;
    for (const [entry] of this.#chats.values()) {
      if (entry === undefined) continue;
      this.#expire(entry, now);
      if (entry.sent === undefined) dueAt = Math.min(dueAt, entry.notBefore);
      else expiresAt = Math.min(expiresAt, entry.sent.until);
    }
    const isFull = this.#inFlight >= IN_FLIGHT_MAX;
    const sendAt = Math.max(dueAt, this.#pausedUntil, this.#pace.readyAt(now));
    return Math.min(expiresAt, isFull ? NEVER : sendAt);
  }

  /** Returns the message to send now: the oldest of those that may be sent. */
  next(now: number): ClientFrame | undefined {
    const isReady = this.#pausedUntil <= now && this.#pace.readyAt(now) <= now;
    if (!isReady || this.#inFlight >= IN_FLIGHT_MAX) return undefined;
    const firsts = [...this.#chats.values()].flatMap(([entry]) => entry ?? []);
    const waiting = firsts.filter((entry) => entry.sent === undefined && entry.notBefore <= now);
    const entry = waiting.sort((one, other) => one.draft.order - other.draft.order)[0];
    if (entry === undefined) return undefined;
    const request_id = `send-${++this.#attempts}`;
    this.#pace.spend(now);
    this.#inFlight += 1;
    const above = this.#highestSeen(entry.draft.chat_id);
    entry.sent = { request_id, until: now + REQUEST_TIMEOUT_MS, above };
    const { order: _, ...draft } = entry.draft;
    return { type: "send_message", request_id, ...draft };
  }

  /** Handles an ack; returns the message if it belongs to this outbox. */
  acked(ack: MessageAck): StoredDraft | undefined {
    const entry = this.#chats.get(ack.chat_id)?.[0];
    if (entry === undefined || keyOf(entry.draft) !== keyOf(ack)) return undefined;
    this.#backOff.reset();
    this.#removeFirst(ack.chat_id);
    return entry.draft;
  }

  /** Handles an error; returns the message if the error belongs to this outbox. */
  refused(error: ErrorFrame, now: number): SendRefused | undefined {
    const firsts = [...this.#chats.values()].flatMap(([entry]) => entry ?? []);
    const entry = firsts.find((first) => first.sent?.request_id === error.request_id && first.sent);
    if (entry === undefined) return undefined;
    const { draft } = entry;
    const verdict = judge(error, this.#backOff);
    if (verdict.kind === "final") {
      this.#removeFirst(draft.chat_id);
      return { draft, isFinal: true };
    }
    this.#inFlight -= 1;
    entry.sent = undefined;
    const until = now + verdict.pauseMs;
    if (verdict.kind === "pause_all") this.#pausedUntil = Math.max(this.#pausedUntil, until);
    else entry.notBefore = until;
    return { draft, isFinal: false };
  }

  /**
   * If a message of this chat is being sent on this connection: its sequence will be above this.
   */
  unansweredAbove(chat_id: ChatId): number | undefined {
    return this.#chats.get(chat_id)?.[0]?.sent?.above;
  }

  /** Sends a message again, with the same id, if the server did not answer. */
  #expire(entry: Entry, now: number): void {
    if (entry.sent === undefined || entry.sent.until > now) return;
    this.#inFlight -= 1;
    entry.sent = undefined;
    entry.notBefore = now + this.#backOff.next();
  }

  #removeFirst(chat_id: ChatId): void {
    const queue = this.#chats.get(chat_id) ?? [];
    if (queue.shift()?.sent !== undefined) this.#inFlight -= 1;
    if (queue.length === 0) this.#chats.delete(chat_id);
  }
}
