/** Lists of listeners. */

/** Removes a listener. */
export type Unsubscribe = () => void;

/** Functions that are called when an event occurs. If one throws, the others are still called. */
export class Listeners<Arguments extends unknown[]> {
  readonly #listeners = new Set<{ call: (...values: Arguments) => unknown }>();

  /** The number of listeners. */
  get size(): number {
    return this.#listeners.size;
  }

  /** Adds a listener; the result removes it. */
  add(call: (...values: Arguments) => unknown): Unsubscribe {
    const listener = { call };
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Calls every listener; returns the promises that some of them returned. */
  tell(...values: Arguments): Promise<unknown>[] {
    const promises: Promise<unknown>[] = [];
    for (const { call } of [...this.#listeners]) {
      try {
        const result = call(...values);
        if (result instanceof Promise) promises.push(result.catch(report));
      } catch (error) {
        report(error);
      }
    }
    return promises;
  }
}

/** Reports an error of the application, as the platform does for its own events. */
export function report(error: unknown): void {
  if (typeof globalThis.reportError === "function") globalThis.reportError(error);
  else
    queueMicrotask(() => {
      throw error;
    });
}
