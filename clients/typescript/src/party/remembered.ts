/** The session of a page, stored so that a reload finds it. */

import type { QueueContents } from "./events.js";

/** The stored data of a session. */
export interface RememberedSession {
  readonly sessionId: string;
  /** The board with which the session was joined. */
  readonly boardPath: string;
  readonly username?: string;
  readonly avatarUrl?: string;
  readonly sessionName?: string;
  /** The token with which this client resumes as the same member. */
  readonly resumeToken?: string;
  /** The initial queue, until a join has succeeded. */
  readonly seed?: QueueContents;
}

/** The members of `Storage` that are used. */
export interface PartyStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

const KEY = "heartline.party";

/** The place of one stored session. */
export class Memory {
  readonly #storage: PartyStorage | null;

  /**
   * Without a storage nothing survives the page. The browser's `sessionStorage` is the right one:
   * two tabs are two members.
   */
  constructor(storage: PartyStorage | null) {
    this.#storage = storage;
  }

  /** The stored session. */
  recall(): RememberedSession | null {
    try {
      const text = this.#storage?.getItem(KEY);
      const session = text ? (JSON.parse(text) as RememberedSession) : null;
      return typeof session?.sessionId === "string" ? session : null;
    } catch {
      // The storage may be forbidden, and its content may have another format.
      return null;
    }
  }

  /** Stores a session in place of another. */
  remember(session: RememberedSession): void {
    if (this.#write(session) || session.seed === undefined) {
      return;
    }
    // The queue may be too large for the storage; without it, the session can still be resumed.
    const { seed: _, ...smaller } = session;
    this.#write(smaller);
  }

  /** Removes the stored session. */
  forget(): void {
    try {
      this.#storage?.removeItem(KEY);
    } catch {
      // A storage that cannot be used has nothing to remove.
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
