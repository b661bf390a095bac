/** Web Locks as a browser has them, for the tabs of one test. */
import type { LockManagerLike } from "../../src/index.js";

/** One lock a name; whoever asks waits for its turn, or until it is aborted. */
export class Locks implements LockManagerLike {
  readonly #queues = new Map<string, (() => void)[]>();

  async request(
    name: string,
    { signal }: { signal: AbortSignal },
    held: () => Promise<void>,
  ): Promise<void> {
    const queue = this.#queues.get(name) ?? [];
    this.#queues.set(name, queue);
    await new Promise<void>((resolve, reject) => {
      queue.push(resolve);
      if (queue.length === 1) resolve();
      signal.addEventListener("abort", () => {
        const place = queue.indexOf(resolve);
        if (place > 0) queue.splice(place, 1);
        if (place !== 0) reject(signal.reason);
      });
    });
    await held();
    queue.shift();
    queue[0]?.();
  }
}
