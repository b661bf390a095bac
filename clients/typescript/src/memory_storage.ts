/** A storage that is lost with the page. */
import { type Draft, type StoredDraft, keyOf } from "./draft.js";
import { HeartlineError } from "./error.js";
import { Listeners, type Unsubscribe } from "./listeners.js";
import type { ChatId } from "./protocol.gen.js";
import { OUTCOMES_MAX, type Outcome, type Storage } from "./storage.js";

/** Keeps everything in memory. The clients of one page can share a storage. */
export class MemoryStorage implements Storage {
  readonly user_id: string | undefined;
  readonly lock_name = undefined;
  readonly hearsOthers = true;
  readonly #drafts = new Map<string, StoredDraft>();
  readonly #outcomes = new Map<string, Outcome>();
  readonly #cursors = new Map<ChatId, number>();
  readonly #changed = new Listeners<[]>();
  #order = 0;
  #lease: { owner: string; until: number } | undefined;

  constructor(options: { user_id?: string } = {}) {
    this.user_id = options.user_id;
  }

  async add(draft: Draft, draftsMax: number): Promise<void> {
    const key = keyOf(draft);
    if (this.#drafts.has(key)) throw alreadyWaiting();
    if (this.#drafts.size >= draftsMax) throw outboxFull(draftsMax);
    this.#drafts.set(key, { ...draft, order: ++this.#order });
    // Forget the outcome of an earlier attempt with the same id.
    this.#outcomes.delete(key);
    this.#changed.tell();
  }

  async draftsAfter(order: number): Promise<StoredDraft[]> {
    return [...this.#drafts.values()].filter((draft) => draft.order > order);
  }

  async settle(draft: StoredDraft, outcome: Outcome): Promise<void> {
    this.#drafts.delete(keyOf(draft));
    this.#outcomes.set(keyOf(draft), outcome);
    const [oldest] = this.#outcomes.keys();
    if (this.#outcomes.size > OUTCOMES_MAX && oldest !== undefined) this.#outcomes.delete(oldest);
    this.#changed.tell();
  }

  async outcomes(keys: string[]): Promise<[string, Outcome][]> {
    return keys.flatMap((key) => {
      const outcome = this.#outcomes.get(key);
      return outcome === undefined ? [] : [[key, outcome]];
    });
  }

  async claim(owner: string, milliseconds: number): Promise<boolean> {
    const now = Date.now();
    const lease = this.#lease;
    if (lease !== undefined && lease.owner !== owner && lease.until > now) return false;
    this.#lease = { owner, until: now + milliseconds };
    return true;
  }

  async release(owner: string): Promise<void> {
    if (this.#lease?.owner === owner) this.#lease = undefined;
  }

  async cursors(): Promise<[ChatId, number][]> {
    return [...this.#cursors];
  }

  async saveCursors(cursors: [ChatId, number | undefined][]): Promise<void> {
    for (const [chat_id, sequence] of cursors) {
      if (sequence === undefined) this.#cursors.delete(chat_id);
      else this.#cursors.set(chat_id, Math.max(sequence, this.#cursors.get(chat_id) ?? 0));
    }
  }

  onChange(listener: () => void): Unsubscribe {
    return this.#changed.add(listener);
  }

  close(): void {}
}

/** The error for a full outbox. */
export function outboxFull(draftsMax: number): HeartlineError {
  return new HeartlineError("OUTBOX_FULL", `the outbox is full: ${draftsMax} messages are pending`);
}

/** The error for a `client_message_id` that is already pending. */
export function alreadyWaiting(): HeartlineError {
  const message = "a message with this client_message_id is already pending in this chat";
  return new HeartlineError("ALREADY_WAITING", message);
}
