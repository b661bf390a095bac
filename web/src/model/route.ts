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

  /** The person whose direct chat is wanted, if the address names one in the place of a chat. */
  get person(): string | undefined {
    const { view, subject } = this;
    return view === "chats" && subject?.startsWith("@") ? subject.slice(1) : undefined;
  }

  /** Who is to be signed in by this address; from then on it is that of the view alone. */
  takeGuest(): string | undefined {
    const [first, name, ...view] = this.#parts;
    if (first !== "as" || name === undefined) return undefined;
    const hash = `#/${view.map(encodeURIComponent).join("/")}`;
    history.replaceState(null, "", hash);
    return name;
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
    return location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  }
}

/** A part of an address; one that somebody mistyped stands for itself. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a direct chat with somebody. */
export function linkToPerson(user_id: string): string {
  return linkTo("chats", `@${user_id}`);
}

/** The whole address by which a development server's page signs somebody in and opens a view. */
export function guestLink(name: string, link: string): string {
  return `${location.origin}${location.pathname}#/as/${encodeURIComponent(name)}/${link.slice(2)}`;
}

/** Somebody else to try things out with. */
export function guestOf(user_id: string): string {
  return user_id === "bo" ? "ana" : "bo";
}

/** The address of a view, within this page. */
export function linkTo(view: View, subject?: string): string {
  return subject === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(subject)}`;
}
