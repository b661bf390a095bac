/** The open view, kept in the URL, so that links and the browser's back button work. */
import { Observable } from "./observable.js";

/** The views. */
export const VIEWS = ["chats", "party", "you", "console", "break"] as const;
export type View = (typeof VIEWS)[number];

/** The open view, and its subject: a chat, or a party session. */
export class Route extends Observable {
  constructor() {
    super();
    window.addEventListener("hashchange", () => this.changed());
  }

  get view(): View {
    const [view] = this.#parts;
    return VIEWS.find((known) => known === view) ?? "chats";
  }

  /** The subject of the view. */
  get subject(): string | undefined {
    return this.#parts[1] || undefined;
  }

  /** The user whose direct chat the URL names, if it does. */
  get person(): string | undefined {
    const { view, subject } = this;
    return view === "chats" && subject?.startsWith("@") ? subject.slice(1) : undefined;
  }

  /** Takes the user to sign in from the URL, and removes it there. */
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

  /** Opens a view in place of the current one in the browser's history. */
  replace(view: View, subject?: string): void {
    history.replaceState(null, "", linkTo(view, subject));
    this.changed();
  }

  get #parts(): string[] {
    return location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  }
}

/** Decodes a part of a URL; an invalid part is used as it is. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The link to a direct chat with a user. */
export function linkToPerson(user_id: string): string {
  return linkTo("chats", `@${user_id}`);
}

/** The full URL with which a development server's page signs a user in and opens a view. */
export function guestLink(name: string, link: string): string {
  return `${location.origin}${location.pathname}#/as/${encodeURIComponent(name)}/${link.slice(2)}`;
}

/** Another user, to try things out. */
export function guestOf(user_id: string): string {
  return user_id === "bo" ? "ana" : "bo";
}

/** The link to a view, within this page. */
export function linkTo(view: View, subject?: string): string {
  return subject === undefined ? `#/${view}` : `#/${view}/${encodeURIComponent(subject)}`;
}
