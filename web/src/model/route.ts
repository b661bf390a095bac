/** Which view is open: kept in the address, so that a link leads to it and "back" goes back. */
import { Observable } from "./observable.js";

/** The views. */
export const VIEWS = ["chats", "party", "you", "console", "break"] as const;
export type View = (typeof VIEWS)[number];

/** The open view, and what it shows: a chat, or a party session. */
export class Route extends Observable {
  constructor() {
    super();
    window.addEventListener("hashchange", () => this.changed());
  }

  get view(): View {
    const [view] = this.#parts;
    return VIEWS.find((known) => known === view) ?? "chats";
  }

  /** What the view shows. */
  get subject(): string | undefined {
    return this.#parts[1] || undefined;
  }

  /** Opens a view. */
  open(view: View, subject?: string): void {
    location.hash = linkTo(view, subject).slice(1);
  }

  /** Opens a view in the place of the present one, so that "back" does not lead here. */
  replace(view: View, subject?: string): void {
    history.replaceState(null, "", linkTo(view, subject));
    this.changed();
  }

  get #parts(): string[] {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  }
}

/** The address of a view, within this page. */
export function linkTo(view: View, subject?: string): string {
  return subject === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(subject)}`;
}
