/** Remembers in the storage how far the application has come. */
import type { ChatId } from "./protocol.gen.js";
import type { Storage } from "./storage.js";
import { Turns } from "./turns.js";

/** Writes cursors, one write at a time: what moves meanwhile goes into the next. */
export class CursorKeeper {
  readonly #storage: Storage;
  readonly #writing = new Turns(() => this.#write());
  #moved = new Map<ChatId, number | undefined>();

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** A chat has come this far, or is over. */
  moved(chat_id: ChatId, sequence: number | undefined): void {
    this.#moved.set(chat_id, sequence);
    void this.flush();
  }

  /** Waits until everything is written. */
  async flush(): Promise<void> {
    await this.#writing.take();
  }

  async #write(): Promise<void> {
    // What is handed over at once goes into one write.
    await Promise.resolve();
    const moved = [...this.#moved];
    this.#moved.clear();
    // A cursor that is not written means messages twice after a reload, and none lost.
    if (moved.length > 0) await this.#storage.saveCursors(moved).catch(() => {});
  }
}
