/** The storage of a client: data that must survive a connection, and perhaps a page. */
import type { Draft, Receipt, StoredDraft } from "./draft.js";
import type { Unsubscribe } from "./listeners.js";
import type { ChatId, ErrorFrame } from "./protocol.gen.js";

/** The result of a message, for a caller in another tab. */
export type Outcome = { receipt: Receipt } | { error: ErrorFrame };

/**
 * The outbox and the cursors of one user. If several tabs share a storage, every method is atomic
 * among all of them.
 */
export interface Storage {
  /** The owner. A client of another user refuses to use the storage. */
  readonly user_id: string | undefined;
  /** The name of the Web Lock among the tabs; undefined if only one page uses the storage. */
  readonly lock_name: string | undefined;
  /**
   * Whether `onChange` reports changes by other tabs; if not, the client reads the storage at
   * intervals.
   */
  readonly hearsOthers: boolean;
  /** Adds a draft at the end. Rejects with `OUTBOX_FULL` or `ALREADY_WAITING`. */
  add(draft: Draft, draftsMax: number): Promise<void>;
  /** The drafts after this position, in order. */
  draftsAfter(order: number): Promise<StoredDraft[]>;
  /** Removes a draft and keeps its result for a while. */
  settle(draft: StoredDraft, outcome: Outcome): Promise<void>;
  /** The results of messages; pending and forgotten ones are left out. */
  outcomes(keys: string[]): Promise<[string, Outcome][]>;
  /** Takes or renews the lease of sending; returns whether the caller holds it. */
  claim(owner: string, milliseconds: number): Promise<boolean>;
  /** Releases the lease. */
  release(owner: string): Promise<void>;
  /** The stored position in each chat. */
  cursors(): Promise<[ChatId, number][]>;
  /** Stores a position; a position only rises, and undefined removes the chat. */
  saveCursors(cursors: [ChatId, number | undefined][]): Promise<void>;
  /** Calls the listener when this tab or another may have added or settled a draft. */
  onChange(listener: () => void): Unsubscribe;
  /** Closes the storage. */
  close(): void;
}

/** The number of results that are kept. */
export const OUTCOMES_MAX = 200;
