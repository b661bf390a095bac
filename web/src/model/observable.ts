/** Observable state, and the hooks that render it. */
import { useEffect, useState } from "preact/hooks";

/** State that changes and can be observed. */
export class Observable {
  readonly #watchers = new Set<() => void>();

  /** Calls the watcher after every change; returns a function that removes it. */
  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => void this.#watchers.delete(watcher);
  }

  /** Calls every watcher. */
  protected changed(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }
}

/** Renders a component again after every change. */
export function useObservable<T extends Observable | undefined>(observable: T): T {
  const [, setVersion] = useState(0);
  useEffect(() => observable?.watch(() => setVersion((version) => version + 1)), [observable]);
  return observable;
}

/** Renders a component again at an interval, for texts that depend on the time. */
export function useTick(intervalMs: number): void {
  const [, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
}
