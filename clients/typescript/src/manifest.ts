/** Requests the manifest: every chat of the user with its head, page by page. */
import { BackOff, SERVER_DELAY_MAX_MS } from "./back_off.js";
import { type FrameSource, NEVER, REQUEST_TIMEOUT_MS } from "./frame_source.js";
import type { ChatId, ClientFrame, ErrorFrame, ManifestChat } from "./protocol.gen.js";
import { judge } from "./verdict.js";

/** One reading of the manifest, from its first page to its last. */
interface Round {
  dueAt: number;
  /** The chats that must be found; undefined means all. */
  only: Set<ChatId> | undefined;
  /** The page to request next. */
  page: string | undefined;
  /** The pending request. */
  request_id: string | undefined;
}

/** The result of a page of the manifest. */
export type PageTaken =
  /** The page belongs to no request of this manifest. */
  | "not_mine"
  /** More pages follow. */
  | "more"
  /** The round is complete. */
  | "complete";

/** The manifest of one connection: the current round, and the next one. */
export class Manifest implements FrameSource {
  readonly #backOff: BackOff;
  #current: Round | undefined;
  /** A round that was requested after the current one had begun, which may have read too early. */
  #following: Round | undefined;
  #pausedUntil = 0;
  #requests = 0;

  constructor(backOff: BackOff) {
    this.#backOff = backOff;
  }

  /** A connection was opened: request the whole manifest. */
  established(now: number): void {
    this.ended();
    this.#current = round(now, undefined);
  }

  /** The connection has ended, and every request with it. */
  ended(): void {
    this.#current = this.#following = undefined;
    this.#pausedUntil = 0;
  }

  /** A newer token is valid: requests that waited for it continue. */
  tokenRefreshed(): void {
    this.#pausedUntil = 0;
  }

  /** Messages may have been missed in these chats, or in all. */
  resync(chat_ids: ChatId[] | undefined, delayMs: number, now: number): void {
    const only = chat_ids === undefined ? undefined : new Set(chat_ids);
    const wanted = round(now + Math.min(delayMs, SERVER_DELAY_MAX_MS), only);
    const current = this.#current;
    const hasBegun = current?.request_id !== undefined || current?.page !== undefined;
    if (hasBegun) this.#following = merged(this.#following, wanted);
    else this.#current = merged(current, wanted);
  }

  dueAt(now: number): number {
    const current = this.#current;
    if (current === undefined) return NEVER;
    if (current.request_id !== undefined && now >= current.dueAt) current.request_id = undefined;
    return Math.max(current.dueAt, this.#pausedUntil);
  }

  next(now: number): ClientFrame | undefined {
    const current = this.#current;
    if (current === undefined || this.dueAt(now) > now) return undefined;
    const request_id = `manifest-${++this.#requests}`;
    current.request_id = request_id;
    // If no answer arrives, the same page is due again at this time.
    current.dueAt = now + REQUEST_TIMEOUT_MS;
    const page = current.page === undefined ? {} : { page: current.page };
    return { type: "sync_manifest", request_id, ...page };
  }

  /** Takes a page. */
  answered(
    request_id: string,
    chats: ManifestChat[],
    next_page: string | undefined,
    now: number,
  ): PageTaken {
    const current = this.#current;
    if (current?.request_id !== request_id) return "not_mine";
    this.#backOff.reset();
    current.request_id = undefined;
    current.dueAt = now;
    current.page = next_page;
    for (const chat of chats) current.only?.delete(chat.chat_id);
    if (next_page !== undefined && current.only?.size !== 0) return "more";
    this.#current = this.#following;
    this.#following = undefined;
    return "complete";
  }

  /**
   * Handles an error; returns whether it belongs to the manifest. The same page is then requested
   * again, or the first one if the page is rejected for good.
   */
  refused(error: ErrorFrame, now: number): boolean {
    const current = this.#current;
    if (current === undefined || current.request_id !== error.request_id) return false;
    current.request_id = undefined;
    current.dueAt = now;
    const verdict = judge(error, this.#backOff);
    if (verdict.kind === "final") current.page = undefined;
    this.#pausedUntil = now + (verdict.kind === "final" ? this.#backOff.next() : verdict.pauseMs);
    return true;
  }
}

function round(dueAt: number, only: Set<ChatId> | undefined): Round {
  return { dueAt, only, page: undefined, request_id: undefined };
}

/** Merges two rounds into one. */
function merged(one: Round | undefined, other: Round): Round {
  if (one === undefined) return other;
  const only = one.only && other.only && new Set([...one.only, ...other.only]);
  return round(Math.min(one.dueAt, other.dueAt), only);
}
