/** The back-off between attempts. */
import {
  RECONNECT_DELAY_MAX_MS,
  RECONNECT_DELAY_MIN_MS,
  RECONNECT_JITTER_PERCENT,
} from "./protocol.gen.js";

/** The longest delay accepted from a server; a longer one is a server bug. */
export const SERVER_DELAY_MAX_MS = 60 * 60 * 1000;

const JITTER = RECONNECT_JITTER_PERCENT / 100;

/**
 * A back-off of 1 s doubling to 16 s, with jitter, so that the clients of a failed server do not
 * reconnect at the same moment.
 */
export class BackOff {
  #failures = 0;
  readonly #random: () => number;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** Returns the delay after one more failure. */
  next(): number {
    const delay = Math.min(RECONNECT_DELAY_MIN_MS * 2 ** this.#failures, RECONNECT_DELAY_MAX_MS);
    this.#failures = Math.min(this.#failures + 1, 30);
    return delay * (1 - JITTER + 2 * JITTER * this.#random());
  }

  /**
   * Adds jitter to a delay that the server requested from all clients: never shorter than
   * requested.
   */
  atLeast(delayMs: number): number {
    return Math.min(delayMs, SERVER_DELAY_MAX_MS) * (1 + JITTER * this.#random());
  }

  /** The delay after a rejected request: the server's `retry_after`, or the back-off. */
  afterRefusal(retry_after_seconds: number | undefined): number {
    return retry_after_seconds ? this.atLeast(retry_after_seconds * 1000) : this.next();
  }

  /** Resets the back-off: the next failure counts as the first. */
  reset(): void {
    this.#failures = 0;
  }
}
