/** Which of several tabs sends. */
import { newId } from "./draft.js";
import { NEVER } from "./frame_source.js";
import type { Storage } from "./storage.js";

/** How long a tab without Web Locks keeps the right to send when it is not heard of. */
const LEASE_MS = 5000;
/** How often it renews it, and how often others ask. */
const CLAIM_INTERVAL_MS = 1000;

/** What is needed of `navigator.locks`. */
export interface LockManagerLike {
  request(
    name: string,
    options: { signal: AbortSignal },
    held: () => Promise<void>,
  ): Promise<unknown>;
}

/**
 * The right to send from a shared outbox. One tab has it at a time: by a Web Lock, which the
 * browser gives on when a tab ends, or where there are none by a lease in the storage. Should two
 * tabs ever hold it, nothing is stored twice: the server knows a message by its id.
 */
export class OutboxLock {
  readonly #storage: Storage;
  readonly #locks: LockManagerLike | undefined;
  #abort: AbortController | undefined;
  #release: (() => void) | undefined;
  #heldUntil = 0;
  /** The last claim, until its lease is given back. */
  #claiming: Promise<void> = Promise.resolve();

  constructor(storage: Storage, locks: LockManagerLike | undefined) {
    this.#storage = storage;
    this.#locks = storage.lock_name === undefined ? undefined : locks;
  }

  /** Whether this tab sends. */
  get isHeld(): boolean {
    return Date.now() < this.#heldUntil;
  }

  /** Waits for the right to send, and calls when it has come. */
  acquire(held: () => void): void {
    this.release();
    const abort = new AbortController();
    this.#abort = abort;
    if (this.#locks !== undefined) this.#request(this.#locks, abort.signal, held);
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

  #request(locks: LockManagerLike, signal: AbortSignal, held: () => void): void {
    const hold = () =>
      new Promise<void>((resolve) => {
        if (signal.aborted) return resolve();
        this.#release = resolve;
        this.#heldUntil = NEVER;
        held();
      });
    // It rejects when it is aborted, which only this class does.
    locks.request(`outbox:${this.#storage.lock_name}`, { signal }, hold).catch(() => {});
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
