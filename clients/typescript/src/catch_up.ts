/** Tracks whether every chat has reached the head that it had when the connection was opened. */
import { NEVER } from "./frame_source.js";
import type { ChatId } from "./protocol.gen.js";

/** The progress of one connection. */
export class CatchUp {
  /** The chats that are behind, with the sequence that each must reach. */
  readonly #behind = new Map<ChatId, number>();
  #isReading = true;
  #isAnnounced = false;

  /** The manifest lists a chat with its head. */
  expect(chat_id: ChatId, head_sequence: number, reached: number): void {
    if (this.#isReading && reached < head_sequence) this.#behind.set(chat_id, head_sequence);
  }

  /** The manifest was read completely, so all chats that are behind are known. */
  manifestComplete(): void {
    this.#isReading = false;
  }

  /** A chat has reached this sequence. */
  reached(chat_id: ChatId, reached: number): void {
    if ((this.#behind.get(chat_id) ?? NEVER) <= reached) this.forget(chat_id);
  }

  /** Stops tracking a chat. */
  forget(chat_id: ChatId): void {
    this.#behind.delete(chat_id);
  }

  /** Returns true once, when every chat has caught up. */
  announce(): boolean {
    if (this.#isReading || this.#isAnnounced || this.#behind.size > 0) return false;
    this.#isAnnounced = true;
    return true;
  }
}
