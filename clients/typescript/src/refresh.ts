/** When a newer token is due, and which one is on its way. */
import { NEVER } from "./frame_source.js";
import type { TokenNeed } from "./token.js";

/**
 * How long to wait at least between two tokens, so that neither a short-lived token nor a provider
 * without news makes the client spin.
 */
const PAUSE_MIN_MS = 1000;
/** The share of a token's remaining life after which a newer one is fetched. */
const REMAINING_LIFE_SHARE = 0.8;

/**
 * The state of a connection's token. Moments are of two clocks: `now` runs evenly, `wall` is the
 * date.
 */
export class Refresh {
  /** When the token in force ends by the date, if that is known. */
  #expiresAt: number | undefined;
  #offered: { request_id: string; token: string } | undefined;
  #lastWasRefused = false;
  #offers = 0;
  /** When to ask the provider. */
  dueAt = NEVER;

  /**
   * The server took a token. If that has ended already by the client's date, then the date is
   * wrong, and the server will say when the token ends.
   */
  inForce(expiresAt: number | undefined, now: number, wall: number): void {
    const end = expiresAt !== undefined && expiresAt > wall ? expiresAt : undefined;
    this.#expiresAt = end;
    this.#lastWasRefused = false;
    this.dueAt = end === undefined ? NEVER : now + pauseBefore(end, wall);
  }

  /** The server says that the token has ended. A fetch or an offer under way goes on. */
  expired(now: number): void {
    this.#expiresAt = undefined;
    if (this.#offered === undefined) this.dueAt = now;
  }

  /** The provider is being asked. */
  begin(): TokenNeed {
    this.dueAt = NEVER;
    return this.#lastWasRefused ? "refused" : "refresh";
  }

  /** The provider had nothing new: it is asked again later, and once a second in the end. */
  notYet(now: number, wall: number): void {
    const end = this.#expiresAt;
    this.dueAt = now + (end === undefined ? PAUSE_MIN_MS : pauseBefore(end, wall));
  }

  /** A newer token is sent to the server in the request of this name. */
  offer(token: string): string {
    this.dueAt = NEVER;
    const request_id = `refresh-${++this.#offers}`;
    this.#offered = { request_id, token };
    return request_id;
  }

  /** The server took the token of this request; gives it back. */
  accepted(request_id: string): string | undefined {
    if (this.#offered?.request_id !== request_id) return undefined;
    const { token } = this.#offered;
    this.#offered = undefined;
    return token;
  }

  /** The server refused this request. If it was an offer, another token is fetched. */
  refused(request_id: string, now: number, wall: number): void {
    if (this.#offered?.request_id !== request_id) return;
    this.#offered = undefined;
    this.#lastWasRefused = true;
    this.notYet(now, wall);
  }
}

function pauseBefore(end: number, wall: number): number {
  return Math.max((end - wall) * REMAINING_LIFE_SHARE, PAUSE_MIN_MS);
}
