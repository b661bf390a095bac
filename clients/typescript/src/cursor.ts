/**
 * The position in each chat. A cursor is the highest sequence up to which every message has
 * arrived, by push, page or own ack. Messages above a gap are held until the gap is filled, so that
 * the application receives every message once and in ascending order. A cursor moves down only for
 * messages that had no listener.
 */
import type { ChatId, Message } from "./protocol.gen.js";

/**
 * The number of messages held above gaps, in all chats together. Further ones are dropped and
 * arrive again in a page.
 */
export const AHEAD_MESSAGES_MAX = 1000;

interface Cursor {
  /** Every message up to this sequence was released. */
  reached: number;
  /** The highest sequence seen in a push, a page, an ack or a manifest. */
  highestSeen: number;
  /** The messages above the gap. */
  ahead: Map<number, Message>;
  /** Whether the start of the chat is known. */
  hasBegun: boolean;
}

/** A requested page, with the state at the time of the request. */
export interface PageRange {
  /** The page starts after this sequence. */
  after: number;
  /**
   * The highest sequence seen at the time of the request. These messages were stored by then, so a
   * last page without them proves that the server has deleted them.
   */
  highestSeen: number;
}

/** The cursors of all known chats. */
export class Cursors {
  readonly #chats = new Map<ChatId, Cursor>();
  #aheadCount = 0;

  /**
   * Sets the sequence after which a chat starts, unless it is set. Returns the messages that can be
   * released.
   */
  begin(chat_id: ChatId, after: number): Message[] {
    const cursor = this.#cursor(chat_id);
    if (cursor.hasBegun) return [];
    cursor.hasBegun = true;
    return this.#advance(cursor, after);
  }

  /** The known chats. */
  chatIds(): ChatId[] {
    return [...this.#chats.keys()];
  }

  /** Whether the start of the chat is known. */
  hasBegun(chat_id: ChatId): boolean {
    return this.#chats.get(chat_id)?.hasBegun === true;
  }

  /** The sequence up to which every message was released. */
  reached(chat_id: ChatId): number {
    return this.#chats.get(chat_id)?.reached ?? 0;
  }

  /** The highest sequence seen. */
  highestSeen(chat_id: ChatId): number {
    return this.#chats.get(chat_id)?.highestSeen ?? 0;
  }

  /** Records that a sequence exists. An unknown chat becomes known. */
  saw(chat_id: ChatId, sequence: number): void {
    const cursor = this.#cursor(chat_id);
    cursor.highestSeen = Math.max(cursor.highestSeen, sequence);
  }

  /** Moves the cursor back: the messages after this sequence had no listener. */
  rewind(chat_id: ChatId, sequence: number): void {
    const cursor = this.#cursor(chat_id);
    cursor.reached = Math.min(cursor.reached, sequence);
  }

  /** Removes a chat: the user is no longer a member. */
  forget(chat_id: ChatId): void {
    this.#aheadCount -= this.#chats.get(chat_id)?.ahead.size ?? 0;
    this.#chats.delete(chat_id);
  }

  /**
   * Whether messages are missing that only a page can bring. `unansweredAbove` is set while this
   * connection has an unanswered send in the chat. The answer will fill one sequence above it, so a
   * single missing sequence there is not a gap yet.
   */
  hasGap(chat_id: ChatId, unansweredAbove: number | undefined): boolean {
    const cursor = this.#chats.get(chat_id);
    if (cursor === undefined || !cursor.hasBegun) return false;
    const missing = cursor.highestSeen - cursor.reached - cursor.ahead.size;
    if (unansweredAbove === undefined) return missing > 0;
    return missing > 1 || (missing === 1 && cursor.reached < unansweredAbove);
  }

  /** Takes a message. Returns the messages that can be released, in order. */
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

  /**
   * Takes a page. The cursor skips sequences that the page leaves out: the server has deleted them.
   */
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

  /** Moves a cursor up to `target` and over the messages held directly above, and returns those. */
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
