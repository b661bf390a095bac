/** Whether every chat has come as far as it was when the connection began. */
import { NEVER } from "./frame_source.js";
import type { ChatId } from "./protocol.gen.js";

/** The progress of one connection. */
export class CatchUp {
  /** The chats that are behind, and where they have to arrive. */
  readonly #behind = new Map<ChatId, number>();
  #isReading = true;
  #isAnnounced = false;

  /** The manifest names a chat with its head. */
  expect(chat_id: ChatId, head_sequence: number, reached: number): void {
    if (this.#isReading && reached < head_sequence) this.#behind.set(chat_id, head_sequence);
  }

  /** The manifest was read to its end, so all that are behind are known. */
  manifestComplete(): void {
    this.#isReading = false;
  }

  /** A chat has come this far. */
  reached(chat_id: ChatId, reached: number): void {
    if ((this.#behind.get(chat_id) ?? NEVER) <= reached) this.forget(chat_id);
  }

  /** Nobody waits for this chat any more. */
  forget(chat_id: ChatId): void {
    this.#behind.delete(chat_id);
  }

  /** Whether it is time to say that everything has arrived: true once. */
  announce(): boolean {
    if (this.#isReading || this.#isAnnounced || this.#behind.size > 0) return false;
    this.#isAnnounced = true;
    return true;
  }
}
