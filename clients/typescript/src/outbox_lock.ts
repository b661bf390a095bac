/** Which of several tabs sends. */
import { newId } from "./draft.js";
import { NEVER } from "./frame_source.js";
import type { Storage } from "./storage.js";

/** How long a tab without Web Locks keeps the right to send when it is not heard of. */
const LEASE_MS = 5000;
/** How often it renews it, and how often others ask. */
const CLAIM_INTERVAL_MS = 1000;
/** How long a tab waits for a Web Lock before it takes it away, if somebody waits for that. */
const PATIENCE_MS = 10_000;

/** What is needed of `navigator.locks`. */
export interface LockManagerLike {
  request(
    name: string,
    options: { signal: AbortSignal } | { steal: true },
    held: () => Promise<void>,
  ): Promise<unknown>;
}

/**
 * The right to send from a shared outbox. One tab has it at a time: by a Web Lock, which the
 * browser gives on when a tab ends, or where there are none by a lease in the storage. Should two
 * tabs ever hold it, nothing is stored twice: the server knows a message by its id. So a tab may
 * take the lock from one that does not send, because the browser lets it stand still.
 */
export class OutboxLock {
  readonly #storage: Storage;
  readonly #locks: LockManagerLike | undefined;
  readonly #isUrgent: () => boolean;
  #abort: AbortController | undefined;
  #release: (() => void) | undefined;
  #heldUntil = 0;
  /** The last claim, until its lease is given back. */
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

  /** Waits for the right to send, and calls when it has come. */
  acquire(held: () => void, steal = false): void {
    this.release();
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#locks !== undefined) this.#request(this.#locks, abort.signal, held, steal);
    else this.#claiming = this.#claim(abort.signal, held);
  }

  /** Gives it to the next, or waits no longer. */
  release(): void {
    this.#heldUntil = 0;
    this.#abort?.abort();
    this.#abort = undefined;
    this.#release?.();
    this.#release = undefined;
  }

  /** Gives it up for good, and waits until others can see that. */
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
      // It rejects when it is aborted, which only this class does, or was taken by another tab.
      if (wasHeld && !signal.aborted) this.acquire(held);
    });
  }

  async #claim(signal: AbortSignal, held: () => void): Promise<void> {
    // Each time another one, so that giving up a lease never ends the one after it.
    const owner = newId();
    while (!signal.aborted) {
      const asked = Date.now();
      // A storage that fails now may work in a second; sends say so themselves.
      const isMine = await this.#storage.claim(owner, LEASE_MS).catch(() => false);
      if (signal.aborted) break;
      const wasHeld = this.isHeld;
      // A second less than is written, so that the next one never begins before this one ends.
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
