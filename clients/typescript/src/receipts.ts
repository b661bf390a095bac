/** Telling the server how far the application has come, without a frame for every message. */
import type { FrameSource } from "./frame_source.js";
import type { ChatId, ClientFrame } from "./protocol.gen.js";

/** An ack goes out at the latest when so many messages of a chat were handed over… */
const MESSAGES_MAX = 10;
/** …or when the first of them was handed over that long ago. */
const DELAY_MAX_MS = 1000;

interface Untold {
  /** Everything up to here was handed over. */
  sequence: number;
  /** How many messages that is since the last ack. */
  messages: number;
  /** When the first of them was handed over. */
  since: number;
}

/** What was handed to the application and not yet told to the server. */
export class Receipts implements FrameSource {
  readonly #chats = new Map<ChatId, Untold>();

  /** A message was handed over, and everything before it. */
  handedOver(chat_id: ChatId, sequence: number, now: number): void {
    const untold = this.#chats.get(chat_id) ?? { sequence, messages: 0, since: now };
    untold.sequence = Math.max(untold.sequence, sequence);
    untold.messages += 1;
    this.#chats.set(chat_id, untold);
  }

  /**
   * The server says how far it knows this user to be. An ack can be lost with its connection, so a
   * server that knows less than this device is told again.
   */
  serverKnows(chat_id: ChatId, known: number, handed: number, now: number): void {
    if (known < handed) this.handedOver(chat_id, handed, now);
  }

  /** The user is no longer a member. */
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

  /** Everything that the server does not know yet, due or not. */
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
