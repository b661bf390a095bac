/** What a browser says about its page: that it sleeps, wakes, or has lost the network. */

/** What is needed of `window`. */
export type PageWindow = Pick<EventTarget, "addEventListener" | "removeEventListener">;

/** What is needed of `document`. */
export type PageDocument = PageWindow & { readonly visibilityState: string };

/** What follows from the page's events. */
export interface PageActions {
  /** The page is shown again, or the network is back: whatever waits should be tried now. */
  wake(): void;
  /** The page is about to stand still: nothing of it will run. */
  sleep(): void;
  /** The browser says that the network is gone. */
  offline(): void;
}

/** Listens to the page, where there is one. */
export class Page {
  readonly #ends: (() => void)[] = [];
  readonly #document: PageDocument | undefined;

  constructor(
    actions: PageActions,
    window: PageWindow | undefined = globalThis.window as PageWindow | undefined,
    document: PageDocument | undefined = globalThis.document as PageDocument | undefined,
  ) {
    this.#document = document;
    this.#on(window, "online", () => actions.wake());
    this.#on(window, "offline", () => actions.offline());
    this.#on(window, "pageshow", () => actions.wake());
    this.#on(window, "pagehide", (event) => {
      // A page that is not kept is over anyway, and its socket with it.
      if ((event as PageTransitionEvent).persisted) actions.sleep();
    });
    this.#on(document, "freeze", () => actions.sleep());
    this.#on(document, "resume", () => actions.wake());
    this.#on(document, "visibilitychange", () => {
      if (this.isVisible) actions.wake();
    });
  }

  /** Whether somebody may be looking at it. */
  get isVisible(): boolean {
    return this.#document?.visibilityState === "visible";
  }

  /** Listens no more. */
  close(): void {
    for (const end of this.#ends) end();
  }

  #on(target: PageWindow | undefined, type: string, listener: (event: Event) => void): void {
    if (typeof target?.addEventListener !== "function") return;
    target.addEventListener(type, listener);
    this.#ends.push(() => target.removeEventListener(type, listener));
  }
}
