/** Serialises repeated work. */

/** Runs work on request, one run at a time: requests during a run cause one more. */
export class Turns {
  readonly #work: () => Promise<void>;
  #isWanted = false;
  #working: Promise<void> | undefined;

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Runs the work from the start. Resolves when no further run is requested. */
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
