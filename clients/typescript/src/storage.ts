/** Where a client keeps what must outlive a connection, and perhaps a page. */
import type { Draft, Receipt, StoredDraft } from "./draft.js";
import type { Unsubscribe } from "./listeners.js";
import type { ChatId, ErrorFrame } from "./protocol.gen.js";

/** How a message ended, for whoever waits for it in another tab. */
export type Outcome = { receipt: Receipt } | { error: ErrorFrame };

/**
 * The outbox and the cursors of one user. Several tabs may share one; then every method is atomic
 * among all of them.
 */
export interface Storage {
  /** Whose it is. A client of somebody else refuses to send from it. */
  readonly user_id: string | undefined;
  /** What the tabs that share it call its Web Lock; none if it is shared within one page only. */
  readonly lock_name: string | undefined;
  /** Whether `onChange` hears of other tabs; without, they are looked at from time to time. */
  readonly hearsOthers: boolean;
  /** Adds a draft behind all others. Rejects with `OUTBOX_FULL` or `ALREADY_WAITING`. */
  add(draft: Draft, draftsMax: number): Promise<void>;
  /** The drafts after this place, in order. */
  draftsAfter(order: number): Promise<StoredDraft[]>;
  /** Removes a draft and remembers for a while how it ended. */
  settle(draft: StoredDraft, outcome: Outcome): Promise<void>;
  /** How messages ended; those that wait still, or are forgotten, are left out. */
  outcomes(keys: string[]): Promise<[string, Outcome][]>;
  /** Takes or renews the right to send, for a while; answers whether it has it. */
  claim(owner: string, milliseconds: number): Promise<boolean>;
  /** Gives it back. */
  release(owner: string): Promise<void>;
  /** How far the application had come in each chat. */
  cursors(): Promise<[ChatId, number][]>;
  /** Remembers that; a number only rises, and undefined forgets the chat. */
  saveCursors(cursors: [ChatId, number | undefined][]): Promise<void>;
  /** Tells when something may have been added or settled, by this tab or another. */
  onChange(listener: () => void): Unsubscribe;
  /** Is needed no longer. */
  close(): void;
}

/** Outcomes that are remembered. */
export const OUTCOMES_MAX = 200;
