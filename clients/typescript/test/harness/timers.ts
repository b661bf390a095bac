/** The timers that the library has set and neither cleared nor heard of. */

import { join } from "node:path";

const SOURCES = join(import.meta.dirname, "../../src");

/** Watches the global timers until it is ended. */
export class Timers {
  readonly #running = new Map<unknown, string>();
  readonly #originals = {
    setTimeout: globalThis.setTimeout,
    setInterval: globalThis.setInterval,
    clearTimeout: globalThis.clearTimeout,
    clearInterval: globalThis.clearInterval,
  };

  constructor() {
    const { setTimeout, setInterval, clearTimeout, clearInterval } = this.#originals;
    const running = this.#running;
    const note = (timer: unknown) => {
      // Below the message: this function, the one that takes the platform's place, and its caller.
      const caller = (new Error().stack ?? "").split("\n")[3] ?? "";
      if (caller.includes(SOURCES)) running.set(timer, caller.trim());
    };
    const set = ((call: (...values: unknown[]) => void, delay?: number, ...values: unknown[]) => {
      const timer = setTimeout(() => {
        running.delete(timer);
        call(...values);
      }, delay);
      note(timer);
      return timer;
    }) as typeof setTimeout;
    const repeat = ((call: () => void, delay?: number) => {
      const timer = setInterval(call, delay);
      note(timer);
      return timer;
    }) as typeof setInterval;
    const clear = (original: (timer: never) => void) => (timer: unknown) => {
      running.delete(timer);
      original(timer as never);
    };
    Object.assign(globalThis, {
      setTimeout: set,
      setInterval: repeat,
      clearTimeout: clear(clearTimeout),
      clearInterval: clear(clearInterval),
    });
  }

  /** Where those that still run were set. */
  get left(): string[] {
    return [...this.#running.values()];
  }

  /** Watches no more. */
  end(): void {
    Object.assign(globalThis, this.#originals);
  }
}
