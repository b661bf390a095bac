/** Web Locks as a browser has them, for the tabs of one test. */
import type { LockManagerLike } from "../../src/index.js";

/** Somebody who has the lock, or waits for it. */
class Asker {
  grant: () => void = () => {};
  refuse: (reason: unknown) => void = () => {};
  rob: () => void = () => {};
  readonly granted = new Promise<void>((resolve, reject) => {
    this.grant = resolve;
    this.refuse = reject;
  });
  readonly robbed = new Promise<never>((_, reject) => {
    this.rob = () => reject(new DOMException("taken", "AbortError"));
  });
}

/** One lock a name; whoever asks waits for its turn or until it is aborted, or takes it away. */
export class Locks implements LockManagerLike {
  readonly #queues = new Map<string, Asker[]>();

  async request(
    name: string,
    options: { signal: AbortSignal } | { steal: true },
    held: () => Promise<void>,
  ): Promise<void> {
    const queue = this.#queues.get(name) ?? [];
    this.#queues.set(name, queue);
    const asker = new Asker();
    if ("steal" in options) {
      queue.shift()?.rob();
      queue.unshift(asker);
    } else {
      const { signal } = options;
      queue.push(asker);
      signal.addEventListener("abort", () => {
        const place = queue.indexOf(asker);
        if (place > 0) queue.splice(place, 1);
        if (place !== 0) asker.refuse(signal.reason);
      });
    }
    queue[0]?.grant();
    await asker.granted;
    await Promise.race([held(), asker.robbed]);
    queue.shift();
    queue[0]?.grant();
  }
}
