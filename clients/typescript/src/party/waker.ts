/** Waiting that ends early when there is hope. */

/** Sleeps, and wakes when the network is back or the page is looked at. */
export class Waker {
  #wake: () => void = () => {};
  readonly #hope = (): void => this.wake();

  constructor() {
    for (const [target, name] of events()) {
      target.addEventListener(name, this.#hope);
    }
  }

  /** Sleeps so long, or as long as the server said. */
  sleep(milliseconds: number, seconds: number | null = null): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, seconds === null ? milliseconds : seconds * 1000);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Ends the sleep. */
  wake(): void {
    this.#wake();
  }

  /** No longer minds the page. */
  stop(): void {
    for (const [target, name] of events()) {
      target.removeEventListener(name, this.#hope);
    }
  }
}

/** Where there is no page there are no such events. */
function events(): [EventTarget, string][] {
  const page = globalThis as { document?: EventTarget; addEventListener?: unknown };
  const found: [EventTarget, string][] = [];
  if (typeof page.addEventListener === "function") {
    found.push([page as unknown as EventTarget, "online"]);
  }
  if (page.document) {
    found.push([page.document, "visibilitychange"]);
  }
  return found;
}
