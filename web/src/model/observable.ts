/** What the screen shows, and how it learns of changes. */
import { useEffect, useState } from "preact/hooks";

/** Something that changes and can be watched. */
export class Observable {
  readonly #watchers = new Set<() => void>();

  /** Calls the watcher after every change, until the answered function is called. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** Tells every watcher. */
  protected changed(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }
}

/** Shows a component again whenever something changes. */
export function useObservable<T extends Observable | undefined>(observable: T): T {
  const [, setVersion] = useState(0);
  useEffect(() => observable?.watch(() => setVersion((version) => version + 1)), [observable]);
  return observable;
}

/** Shows a component again every so often, for what ages by itself. */
export function useTick(intervalMs: number): void {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
}
