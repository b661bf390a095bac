/** Waits that can end early. */

interface Sleeper {
  /** The earliest time at which the sleep can be woken. */
  readonly soonest: number;
  readonly end: () => void;
  timer: ReturnType<typeof setTimeout>;
}

/** Sleeps until the time has passed, or until woken. */
export class Waker {
  readonly #sleepers = new Set<Sleeper>();

  /** Sleeps for a time, and for at least a minimum even if woken. */
  sleep(milliseconds: number, atLeast: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(sleeper.timer);
        this.#sleepers.delete(sleeper);
        resolve();
      };
      const timer = setTimeout(end, milliseconds);
      const sleeper = { soonest: performance.now() + atLeast, end, timer };
      this.#sleepers.add(sleeper);
    });
  }

  /** Wakes every sleep as soon as its minimum has passed. */
  wake(): void {
    for (const sleeper of this.#sleepers) {
      clearTimeout(sleeper.timer);
      sleeper.timer = setTimeout(sleeper.end, Math.max(0, sleeper.soonest - performance.now()));
    }
  }

  /** Ends every sleep at once. */
  end(): void {
    for (const sleeper of [...this.#sleepers]) {
      sleeper.end();
    }
  }
}
