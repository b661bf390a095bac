/** The browser's events about its page: frozen, resumed, offline. */

/** The members of `window` that the client uses. */
export type PageWindow = Pick<EventTarget, "addEventListener" | "removeEventListener">;

/** The members of `document` that the client uses. */
export type PageDocument = PageWindow & { readonly visibilityState: string };

/** The callbacks for the page's events. */
export interface PageActions {
  /** The page is visible again, or the network is back: retry now. */
  wake(): void;
  /** The page is about to be frozen: none of its code will run. */
  sleep(): void;
  /** The browser reports that the network is gone. */
  offline(): void;
}

/** Listens to the page's events, in a browser. */
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
      // A page that is not cached ends anyway, and its socket with it.
      if ((event as PageTransitionEvent).persisted) actions.sleep();
    });
    this.#on(document, "freeze", () => actions.sleep());
    this.#on(document, "resume", () => actions.wake());
    this.#on(document, "visibilitychange", () => {
      if (this.isVisible) actions.wake();
    });
  }

  /** Whether the page is visible. */
  get isVisible(): boolean {
    return this.#document?.visibilityState === "visible";
  }

  /** Removes the listeners. */
  close(): void {
    for (const end of this.#ends) end();
  }

  #on(target: PageWindow | undefined, type: string, listener: (event: Event) => void): void {
    if (typeof target?.addEventListener !== "function") return;
    target.addEventListener(type, listener);
    this.#ends.push(() => target.removeEventListener(type, listener));
  }
}
