/**
 * How far the application has come in each chat.
 *
 * A cursor stands at the highest number up to which everything came, by push, page or own ack.
 * What comes above a hole waits until the hole is filled, so that the application gets every
 * message once and in ascending order. It moves down only for what nobody was there to take.
 */
import type { ChatId, Message } from "./protocol.gen.js";

/**
 * Messages that may wait above holes, in all chats together. What comes beyond is dropped and comes
 * again in a page.
 */
export const AHEAD_MESSAGES_MAX = 1000;

interface Cursor {
  /** Everything up to here was given out. */
  reached: number;
  /** The highest number seen anywhere: in a push, a page, an ack or a manifest. */
  highestSeen: number;
  /** What came above a hole. */
  ahead: Map<number, Message>;
  /** Whether it was said where the chat begins. */
  hasBegun: boolean;
}

/** A page that was asked for, and what was known when it was. */
export interface PageRange {
  /** The page begins after this number. */
  after: number;
  /**
   * The highest number seen when it was asked for: these messages were stored by then, so a last
   * page without them proves that the server keeps them no longer.
   */
  highestSeen: number;
}

/** The cursors of every chat that the client knows. */
export class Cursors {
  readonly #chats = new Map<ChatId, Cursor>();
  #aheadCount = 0;

  /** A chat begins after this number, unless it has begun before. Gives out what can be now. */
  begin(chat_id: ChatId, after: number): Message[] {
    const cursor = this.#cursor(chat_id);
    if (cursor.hasBegun) return [];
    cursor.hasBegun = true;
    return this.#advance(cursor, after);
  }

  /** The chats that are known. */
  chatIds(): ChatId[] {
    return [...this.#chats.keys()];
  }

  /** Whether it was said where the chat begins. */
  hasBegun(chat_id: ChatId): boolean {
    return this.#chats.get(chat_id)?.hasBegun === true;
  }

  /** Up to where everything was given out. */
  reached(chat_id: ChatId): number {
    return this.#chats.get(chat_id)?.reached ?? 0;
  }

  /** The highest number seen anywhere. */
  highestSeen(chat_id: ChatId): number {
    return this.#chats.get(chat_id)?.highestSeen ?? 0;
  }

  /** A number exists. A chat that was not known is from now on. */
  saw(chat_id: ChatId, sequence: number): void {
    const cursor = this.#cursor(chat_id);
    cursor.highestSeen = Math.max(cursor.highestSeen, sequence);
  }

  /** What was given out after this number came to nobody. */
  rewind(chat_id: ChatId, sequence: number): void {
    const cursor = this.#cursor(chat_id);
    cursor.reached = Math.min(cursor.reached, sequence);
  }

  /** The user is no longer a member. */
  forget(chat_id: ChatId): void {
    this.#aheadCount -= this.#chats.get(chat_id)?.ahead.size ?? 0;
    this.#chats.delete(chat_id);
  }

  /**
   * Whether something is missing that only a page can bring.
   *
   * `unansweredAbove` is given while this connection has an unanswered send in the chat. The answer
   * will fill one number above that one, so a single missing number there is no gap yet.
   */
  hasGap(chat_id: ChatId, unansweredAbove: number | undefined): boolean {
    const cursor = this.#chats.get(chat_id);
    if (cursor === undefined || !cursor.hasBegun) return false;
    const missing = cursor.highestSeen - cursor.reached - cursor.ahead.size;
    if (unansweredAbove === undefined) return missing > 0;
    return missing > 1 || (missing === 1 && cursor.reached < unansweredAbove);
  }

  /** A message came. Gives out what can be now, in order. */
  take(message: Message): Message[] {
    this.saw(message.chat_id, message.sequence);
    const cursor = this.#cursor(message.chat_id);
    if (cursor.hasBegun && message.sequence === cursor.reached + 1) {
      return [message, ...this.#advance(cursor, message.sequence)];
    }
    const isNew = message.sequence > cursor.reached && !cursor.ahead.has(message.sequence);
    if (isNew && this.#aheadCount < AHEAD_MESSAGES_MAX) {
      cursor.ahead.set(message.sequence, message);
      this.#aheadCount += 1;
    }
    return [];
  }

  /** A page came. Numbers that it leaves out are passed over: the server no longer keeps them. */
  takePage(chat_id: ChatId, range: PageRange, messages: Message[], has_more: boolean): Message[] {
    const ready: Message[] = [];
    const isContinuous = range.after <= this.reached(chat_id);
    for (const message of messages) {
      if (isContinuous) ready.push(...this.#advance(this.#cursor(chat_id), message.sequence - 1));
      ready.push(...this.take(message));
    }
    if (isContinuous && !has_more) {
      ready.push(...this.#advance(this.#cursor(chat_id), range.highestSeen));
    }
    return ready;
  }

  #cursor(chat_id: ChatId): Cursor {
    let cursor = this.#chats.get(chat_id);
    if (cursor === undefined) {
      cursor = { reached: 0, highestSeen: 0, ahead: new Map(), hasBegun: false };
      this.#chats.set(chat_id, cursor);
    }
    return cursor;
  }

  /**
   * Moves a cursor up to `target` and on over what waits just above, giving out what it passes.
   */
  #advance(cursor: Cursor, target: number): Message[] {
    const ready: Message[] = [];
    const pass = (sequence: number) => {
      const message = cursor.ahead.get(sequence);
      if (message === undefined) return false;
      cursor.ahead.delete(sequence);
      this.#aheadCount -= 1;
      ready.push(message);
      return true;
    };
    if (target > cursor.reached) {
      const below = [...cursor.ahead.keys()].filter((sequence) => sequence <= target);
      for (const sequence of below.sort((one, other) => one - other)) pass(sequence);
      cursor.reached = target;
    }
    while (pass(cursor.reached + 1)) cursor.reached += 1;
    cursor.highestSeen = Math.max(cursor.highestSeen, cursor.reached);
    return ready;
  }
}
