/** The session that a page is in, kept where a reload finds it. */

import type { QueueContents } from "./events.js";

/** What is kept of a session. */
export interface RememberedSession {
  readonly sessionId: string;
  /** The board that it was joined with. */
  readonly boardPath: string;
  readonly username?: string;
  readonly avatarUrl?: string;
  readonly sessionName?: string;
  /** With what this client comes back as the same member. */
  readonly resumeToken?: string;
  /** The queue that it is to begin with, until a join has succeeded. */
  readonly seed?: QueueContents;
}

/** The part of `Storage` that is needed. */
export interface PartyStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const KEY = "heartline.party";

/** A place for one session. */
export class Memory {
  readonly #storage: PartyStorage | null;

  /**
   * Without a storage nothing outlives the page. The browser's `sessionStorage` is the right one:
   * two tabs are two members.
   */
  constructor(storage: PartyStorage | null) {
    this.#storage = storage;
  }

  /** The session that was remembered last. */
  recall(): RememberedSession | null {
    try {
      const text = this.#storage?.getItem(KEY);
      const session = text ? (JSON.parse(text) as RememberedSession) : null;
      return typeof session?.sessionId === "string" ? session : null;
    } catch {
      // A storage may be forbidden, and what is in it may be of another make.
      return null;
    }
  }

  /** Remembers a session in place of another. */
  remember(session: RememberedSession): void {
    if (this.#write(session) || session.seed === undefined) {
      return;
    }
    // A queue may be larger than the storage; without it, at least the session is found again.
    const { seed: _, ...smaller } = session;
    this.#write(smaller);
  }

  /** Forgets it. */
  forget(): void {
    try {
      this.#storage?.removeItem(KEY);
    } catch {
      // A storage that cannot be used has nothing to forget.
    }
  }

  #write(session: RememberedSession): boolean {
    try {
      this.#storage?.setItem(KEY, JSON.stringify(session));
      return true;
    } catch {
      return false;
    }
  }
}

/** The browser's storage of this tab, if there is one. */
export function tabStorage(): PartyStorage | null {
  try {
    return globalThis.sessionStorage ?? null;
  } catch {
    return null;
  }
}
