/** Limits how fast frames are sent. */

/**
 * Keeps the client within the rate that the server has announced, because the server closes a
 * connection after too many rejections. Allows a burst, then one frame per interval.
 */
export class Pace {
  readonly #intervalMs: number;
  /** The burst, as a time. */
  readonly #slackMs: number;
  /** The time at which the whole burst is available again. */
  #fullAt = 0;

  /**
   * Leaves a tenth of the rate and of the burst unused, so that frames which the network bunches
   * together do not exceed the server's count. Nothing is sent before the server has announced its
   * rate.
   */
  constructor(ratePerSecond = 1, burst = 1) {
    this.#intervalMs = 1000 / Math.max(1, ratePerSecond - Math.floor(ratePerSecond / 10));
    this.#slackMs = this.#intervalMs * (Math.max(1, burst - Math.floor(burst / 10)) - 1);
  }

  /** The time at which the next frame may be sent. */
  readyAt(now: number): number {
    return Math.max(now, this.#fullAt - this.#slackMs);
  }

  /** Counts a frame. */
  spend(now: number): void {
    this.#fullAt = Math.max(now, this.#fullAt) + this.#intervalMs;
  }
}
