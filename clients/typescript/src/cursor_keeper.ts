/** Writes the position in each chat to the storage. */
import type { ChatId } from "./protocol.gen.js";
import type { Storage } from "./storage.js";
import { Turns } from "./turns.js";

/** Writes cursors, one write at a time; changes during a write go into the next. */
export class CursorKeeper {
  readonly #storage: Storage;
  readonly #writing = new Turns(() => this.#write());
  #moved = new Map<ChatId, number | undefined>();

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** A chat has reached this sequence, or was removed. */
  moved(chat_id: ChatId, sequence: number | undefined): void {
    this.#moved.set(chat_id, sequence);
    void this.flush();
  }

  /** Waits until everything is written. */
  async flush(): Promise<void> {
    await this.#writing.take();
  }

  async #write(): Promise<void> {
    // Messages delivered in the same turn share one write.
    await Promise.resolve();
    const moved = [...this.#moved];
    this.#moved.clear();
    // A cursor that is not written causes repeated messages after a reload, and no loss.
    if (moved.length > 0) await this.#storage.saveCursors(moved).catch(() => {});
  }
}
