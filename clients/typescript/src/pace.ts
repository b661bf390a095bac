/** How fast frames may follow each other. */

/**
 * Keeps the client within a rate that the server has announced, because too many refusals end the
 * connection. It allows a burst and then one frame per interval.
 */
export class Pace {
  readonly #intervalMs: number;
  /** How far the budget may be overdrawn: the burst. */
  readonly #slackMs: number;
  /** When the whole burst is available again. */
  #fullAt = 0;

  /**
   * A tenth of both stays unused, so that frames which the network bunches together do not go over
   * the server's own count. Before a server has said its rate, nothing leaves anyway.
   */
  constructor(ratePerSecond = 1, burst = 1) {
    this.#intervalMs = 1000 / Math.max(1, ratePerSecond - Math.floor(ratePerSecond / 10));
    this.#slackMs = this.#intervalMs * (Math.max(1, burst - Math.floor(burst / 10)) - 1);
  }

  /** When the next frame may leave. */
  readyAt(now: number): number {
    return Math.max(now, this.#fullAt - this.#slackMs);
  }

  /** A frame leaves. */
  spend(now: number): void {
    this.#fullAt = Math.max(now, this.#fullAt) + this.#intervalMs;
  }
}
