/** The growing pause between attempts. */
import {
  RECONNECT_DELAY_MAX_MS,
  RECONNECT_DELAY_MIN_MS,
  RECONNECT_JITTER_PERCENT,
} from "./protocol.gen.js";

/** The longest pause that a server can ask for; more than this is a mistake of the server. */
export const SERVER_DELAY_MAX_MS = 60 * 60 * 1000;

const JITTER = RECONNECT_JITTER_PERCENT / 100;

/**
 * 1 s doubling to 16 s, moved at random, so that the clients of a fallen server do not return in
 * step.
 */
export class BackOff {
  #failures = 0;
  readonly #random: () => number;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** The pause after one more failure. */
  next(): number {
    const delay = Math.min(RECONNECT_DELAY_MIN_MS * 2 ** this.#failures, RECONNECT_DELAY_MAX_MS);
    this.#failures = Math.min(this.#failures + 1, 30);
    return delay * (1 - JITTER + 2 * JITTER * this.#random());
  }

  /**
   * A pause that the server asked for in the same words of everybody: never shorter, and a little
   * longer at random.
   */
  atLeast(delayMs: number): number {
    return Math.min(delayMs, SERVER_DELAY_MAX_MS) * (1 + JITTER * this.#random());
  }

  /** The pause after a refused request: what the server asked for, or one of the client's own. */
  afterRefusal(retry_after_seconds: number | undefined): number {
    return retry_after_seconds ? this.atLeast(retry_after_seconds * 1000) : this.next();
  }

  /** The next failure is the first again. */
  reset(): void {
    this.#failures = 0;
  }
}
