/** Decides when a newer token is due, and tracks the one being sent. */
import { NEVER } from "./frame_source.js";
import type { TokenNeed } from "./token.js";

/**
 * The shortest interval between two tokens, so that neither a short-lived token nor a provider
 * without a new one makes the client spin.
 */
const PAUSE_MIN_MS = 1000;
/** The share of a token's remaining lifetime after which a newer one is requested. */
const REMAINING_LIFE_SHARE = 0.8;

/** The state of a connection's token. `now` is monotonic, `wall` is the date. */
export class Refresh {
  /** The expiry of the current token, if it is known. */
  #expiresAt: number | undefined;
  #offered: { request_id: string; token: string } | undefined;
  #lastWasRefused = false;
  #offers = 0;
  /** The time at which to call the provider. */
  dueAt = NEVER;

  /**
   * The server accepted a token. If the token has already expired by the client's date, the date is
   * wrong, and the server will report the expiry.
   */
  inForce(expiresAt: number | undefined, now: number, wall: number): void {
    const end = expiresAt !== undefined && expiresAt > wall ? expiresAt : undefined;
    this.#expiresAt = end;
    this.#lastWasRefused = false;
    this.dueAt = end === undefined ? NEVER : now + pauseBefore(end, wall);
  }

  /** The server reports that the token has expired. A request under way continues. */
  expired(now: number): void {
    this.#expiresAt = undefined;
    if (this.#offered === undefined) this.dueAt = now;
  }

  /** The provider was called. */
  begin(): TokenNeed {
    this.dueAt = NEVER;
    return this.#lastWasRefused ? "refused" : "refresh";
  }

  /**
   * The provider returned no new token: it is called again later, and once a second near the
   * expiry.
   */
  notYet(now: number, wall: number): void {
    const end = this.#expiresAt;
    this.dueAt = now + (end === undefined ? PAUSE_MIN_MS : pauseBefore(end, wall));
  }

  /** Starts sending a newer token to the server; returns the id of the request. */
  offer(token: string): string {
    this.dueAt = NEVER;
    const request_id = `refresh-${++this.#offers}`;
    this.#offered = { request_id, token };
    return request_id;
  }

  /** The server accepted the token of this request; returns the token. */
  accepted(request_id: string): string | undefined {
    if (this.#offered?.request_id !== request_id) return undefined;
    const { token } = this.#offered;
    this.#offered = undefined;
    return token;
  }

  /** The server rejected this request. If it was a token, another one is requested. */
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
