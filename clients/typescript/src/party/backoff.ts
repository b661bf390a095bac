/** How long to wait before the next attempt. */

const FIRST_MS = 1000;
const LAST_MS = 16_000;
const JITTER = 0.2;

/** Pauses that double from one second to sixteen, each a fifth longer or shorter by chance. */
export class Backoff {
  #failures = 0;

  /** It worked: the next pause is the first one again. */
  reset(): void {
    this.#failures = 0;
  }

  /** The next pause in milliseconds. */
  next(random: () => number = Math.random): number {
    const plain = Math.min(FIRST_MS * 2 ** this.#failures, LAST_MS);
    this.#failures = Math.min(this.#failures + 1, 10);
    return Math.round(plain * (1 - JITTER + 2 * JITTER * random()));
  }
}
