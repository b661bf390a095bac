/** Work that is done in turns. */

/**
 * Does something whenever it is asked for, one turn after the other: whoever asks during a turn has
 * one more.
 */
export class Turns {
  readonly #work: () => Promise<void>;
  #isWanted = false;
  #working: Promise<void> | undefined;

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Has it done from the beginning. Resolves when nobody wants another turn. */
  take(): Promise<void> {
    this.#isWanted = true;
    this.#working ??= this.#run();
    return this.#working;
  }

  async #run(): Promise<void> {
    while (this.#isWanted) {
      this.#isWanted = false;
      await this.#work();
    }
    this.#working = undefined;
  }
}
