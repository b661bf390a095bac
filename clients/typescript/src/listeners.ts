/** Whoever wants to be told of something. */

/** Ends what it was given for. */
export type Unsubscribe = () => void;

/**
 * Functions that are called when something happens. One that throws does not keep the others from
 * hearing of it.
 */
export class Listeners<Arguments extends unknown[]> {
  readonly #listeners = new Set<{ call: (...values: Arguments) => unknown }>();

  /** How many there are. */
  get size(): number {
    return this.#listeners.size;
  }

  /** Adds one; the result removes it again. */
  add(call: (...values: Arguments) => unknown): Unsubscribe {
    const listener = { call };
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Tells everybody; answers the promises that some of them gave back. */
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

/** An error of the application is shown as one, as the platform does for its own events. */
export function report(error: unknown): void {
  if (typeof globalThis.reportError === "function") globalThis.reportError(error);
  else
    queueMicrotask(() => {
      throw error;
    });
}
