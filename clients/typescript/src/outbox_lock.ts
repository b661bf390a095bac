/** Decides which of several tabs sends. */
import { newId } from "./draft.js";
import { NEVER } from "./frame_source.js";
import type { Storage } from "./storage.js";

/** How long a tab without Web Locks keeps its lease without a renewal. */
const LEASE_MS = 5000;
/** The interval of renewals, and of attempts by other tabs. */
const CLAIM_INTERVAL_MS = 1000;
/** How long a tab with pending messages waits for a Web Lock before it steals the lock. */
const PATIENCE_MS = 10_000;

/** The members of `navigator.locks` that the client uses. */
export interface LockManagerLike {
  request(
    name: string,
    options: { signal: AbortSignal } | { steal: true },
    held: () => Promise<void>,
  ): Promise<unknown>;
}

/**
 * The lock of a shared outbox. One tab holds it at a time: by a Web Lock, which the browser passes
 * on when a tab is closed, or, without Web Locks, by a lease in the storage. If two tabs ever hold
 * it, nothing is stored twice, because the server identifies a message by its id. A tab can
 * therefore steal the lock from a tab that the browser has frozen.
 */
export class OutboxLock {
  readonly #storage: Storage;
  readonly #locks: LockManagerLike | undefined;
  readonly #isUrgent: () => boolean;
  #abort: AbortController | undefined;
  #release: (() => void) | undefined;
  #heldUntil = 0;
  /** The last claim, until its lease is released. */
  #claiming: Promise<void> = Promise.resolve();

  constructor(storage: Storage, locks: LockManagerLike | undefined, isUrgent: () => boolean) {
    this.#storage = storage;
    this.#isUrgent = isUrgent;
    this.#locks = storage.lock_name === undefined ? undefined : locks;
  }

  /** Whether this tab sends. */
  get isHeld(): boolean {
    return Date.now() < this.#heldUntil;
  }

  /** Waits for the lock, and calls back when this tab holds it. */
  acquire(held: () => void, steal = false): void {
    this.release();
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#locks !== undefined) this.#request(this.#locks, abort.signal, held, steal);
    else this.#claiming = this.#claim(abort.signal, held);
  }

  /** Releases the lock, or stops waiting for it. */
  release(): void {
    this.#heldUntil = 0;
    this.#abort?.abort();
    this.#abort = undefined;
    this.#release?.();
    this.#release = undefined;
  }

  /** Releases the lock for good, and waits until other tabs can see that. */
  async close(): Promise<void> {
    this.release();
    await this.#claiming;
  }

  #request(locks: LockManagerLike, signal: AbortSignal, held: () => void, steal: boolean): void {
    let wasHeld = false;
    const hold = () =>
      new Promise<void>((resolve) => {
        if (signal.aborted) return resolve();
        wasHeld = true;
        this.#release?.();
        this.#release = resolve;
        this.#heldUntil = NEVER;
        held();
      });
    const timer = setTimeout(() => this.acquire(held, this.#isUrgent()), PATIENCE_MS);
    this.#release = () => clearTimeout(timer);
    const name = `outbox:${this.#storage.lock_name}`;
    locks.request(name, steal ? { steal } : { signal }, hold).catch(() => {
      // The promise rejects when this class aborts it, or when another tab steals the lock.
      if (wasHeld && !signal.aborted) this.acquire(held);
    });
  }

  async #claim(signal: AbortSignal, held: () => void): Promise<void> {
    // Each claim has its own id, so that releasing one lease never ends the next.
    const owner = newId();
    while (!signal.aborted) {
      const asked = Date.now();
      // The storage may work again in a second; sends report its errors themselves.
      const isMine = await this.#storage.claim(owner, LEASE_MS).catch(() => false);
      if (signal.aborted) break;
      const wasHeld = this.isHeld;
      // One second less than the stored lease, so that two tabs never hold it at once.
      this.#heldUntil = isMine ? asked + LEASE_MS - CLAIM_INTERVAL_MS : 0;
      if (isMine && !wasHeld) held();
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, CLAIM_INTERVAL_MS);
        this.#release = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    await this.#storage.release(owner).catch(() => {});
  }
}
