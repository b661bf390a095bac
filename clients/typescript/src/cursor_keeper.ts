/** Remembers in the storage how far the application has come. */
import type { ChatId } from "./protocol.gen.js";
import type { Storage } from "./storage.js";

/** Writes cursors, one write at a time: what moves meanwhile goes into the next. */
export class CursorKeeper {
  readonly #storage: Storage;
  #moved = new Map<ChatId, number | undefined>();
  #writing: Promise<void> | undefined;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** A chat has come this far, or is over. */
  moved(chat_id: ChatId, sequence: number | undefined): void {
    this.#moved.set(chat_id, sequence);
    this.#writing ??= this.#write();
  }

  /** Waits until everything is written. */
  async flush(): Promise<void> {
    await this.#writing;
  }

  async #write(): Promise<void> {
    // What is handed over in one turn goes into one write.
    await Promise.resolve();
    while (this.#moved.size > 0) {
      const moved = [...this.#moved];
      this.#moved = new Map();
      // A cursor that is not written means messages twice after a reload, and none lost.
      await this.#storage.saveCursors(moved).catch(() => {});
    }
    this.#writing = undefined;
  }
}
