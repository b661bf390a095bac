/** Waiting that ends early when there is hope. */

interface Sleeper {
  /** Before this it cannot be woken. */
  readonly soonest: number;
  readonly end: () => void;
  timer: ReturnType<typeof setTimeout>;
}

/** Sleeps until it is time, or until it is woken. */
export class Waker {
  readonly #sleepers = new Set<Sleeper>();

  /** Sleeps so long, and at least so long even if it is woken. */
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

  /** There is hope: every sleep ends as soon as it can. */
  wake(): void {
    for (const sleeper of this.#sleepers) {
      clearTimeout(sleeper.timer);
      sleeper.timer = setTimeout(sleeper.end, Math.max(0, sleeper.soonest - performance.now()));
    }
  }

  /** There is nothing to wait for any more: ends every sleep. */
  end(): void {
    for (const sleeper of [...this.#sleepers]) {
      sleeper.end();
    }
  }
}
