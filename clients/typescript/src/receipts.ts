/** Acknowledges delivered messages, without a frame for every message. */
import type { FrameSource } from "./frame_source.js";
import type { ChatId, ClientFrame } from "./protocol.gen.js";

/** An ack is sent after at most this many delivered messages of a chat… */
const MESSAGES_MAX = 10;
/** …or this long after the first of them was delivered. */
const DELAY_MAX_MS = 1000;

interface Untold {
  /** Every message up to this sequence was delivered. */
  sequence: number;
  /** The number of messages delivered since the last ack. */
  messages: number;
  /** The time at which the first of them was delivered. */
  since: number;
}

/** The messages that were delivered to the application and not yet acknowledged. */
export class Receipts implements FrameSource {
  readonly #chats = new Map<ChatId, Untold>();

  /** A message was delivered, and every message before it. */
  handedOver(chat_id: ChatId, sequence: number, now: number): void {
    const untold = this.#chats.get(chat_id) ?? { sequence, messages: 0, since: now };
    untold.sequence = Math.max(untold.sequence, sequence);
    untold.messages += 1;
    this.#chats.set(chat_id, untold);
  }

  /**
   * Takes the server's watermark of this user. An ack can be lost with its connection, so a lower
   * watermark than this device's is acknowledged again.
   */
  serverKnows(chat_id: ChatId, known: number, handed: number, now: number): void {
    if (known < handed) this.handedOver(chat_id, handed, now);
  }

  /** Removes a chat: the user is no longer a member. */
  forget(chat_id: ChatId): void {
    this.#chats.delete(chat_id);
  }

  dueAt(): number {
    return Math.min(...[...this.#chats.values()].map(dueAt));
  }

  next(now: number): ClientFrame | undefined {
    const due = [...this.#chats].find(([, untold]) => dueAt(untold) <= now);
    return due && this.#take(...due);
  }

  /** Returns every outstanding ack, due or not. */
  takeAll(): ClientFrame[] {
    return [...this.#chats].map((untold) => this.#take(...untold));
  }

  #take(chat_id: ChatId, { sequence }: Untold): ClientFrame {
    this.#chats.delete(chat_id);
    return { type: "ack", chat_id, last_acked_sequence: sequence };
  }
}

function dueAt(untold: Untold): number {
  return untold.messages >= MESSAGES_MAX ? untold.since : untold.since + DELAY_MAX_MS;
}
