/** Waiting that ends early when there is hope. */

/** Sleeps until it is time, or until it is woken. */
export class Waker {
  readonly #sleepers = new Set<() => void>();

  /** Sleeps so long. */
  sleep(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        this.#sleepers.delete(end);
        resolve();
      };
      const timer = setTimeout(end, milliseconds);
      this.#sleepers.add(end);
    });
  }

  /** Ends every sleep. */
  wake(): void {
    for (const end of [...this.#sleepers]) {
      end();
    }
  }
}
