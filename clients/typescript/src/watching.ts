/** Keeps the presence subscriptions of the application, and sends them on every connection. */
import { BackOff } from "./back_off.js";
import { HeartlineError } from "./error.js";
import { type FrameSource, NEVER, REQUEST_TIMEOUT_MS } from "./frame_source.js";
import { Pace } from "./pace.js";
import {
  type ClientFrame,
  type ClientLimits,
  PRESENCE_USERS_PER_CONNECTION_MAX,
  type ErrorFrame,
  type UserId,
} from "./protocol.gen.js";
import { judge } from "./verdict.js";

type Wish = "begin" | "end";

interface Asked {
  request_id: string;
  user_ids: UserId[];
  wish: Wish;
  until: number;
}

/** The users whom the application observes. */
export class Watching implements FrameSource {
  readonly #backOff: BackOff;
  /** The users that the application subscribed to, independent of connections. */
  readonly #wanted = new Set<UserId>();
  /** The changes still to be sent. A later change replaces an earlier one. */
  readonly #untold = new Map<UserId, Wish>();
  /** The pending request. There is one at a time, so that changes arrive in order. */
  #asked: Asked | undefined;
  #pausedUntil = 0;
  #usersMax = PRESENCE_USERS_PER_CONNECTION_MAX;
  #usersPerFrame = 1;
  #pace = new Pace();
  #isConnected = false;
  #requests = 0;

  constructor(backOff: BackOff) {
    this.#backOff = backOff;
  }

  /** Adds users: all of them, or none if there are too many. */
  subscribe(user_ids: UserId[]): void {
    const all = new Set([...this.#wanted, ...user_ids]);
    const max = this.#usersMax;
    if (all.size > max) {
      const message = `a client can subscribe to at most ${max} users`;
      throw new HeartlineError("TOO_MANY_USERS", message);
    }
    for (const user_id of user_ids) {
      this.#wanted.add(user_id);
      if (this.#isConnected) this.#untold.set(user_id, "begin");
    }
  }

  /** Removes users. */
  unsubscribe(user_ids: UserId[]): void {
    for (const user_id of user_ids) {
      const wasWanted = this.#wanted.delete(user_id);
      if (this.#isConnected && wasWanted) this.#untold.set(user_id, "end");
    }
  }

  /** Whether states of a user are to be ignored. */
  isEnding(user_id: UserId): boolean {
    const asked = this.#asked?.user_ids.includes(user_id) ? this.#asked.wish : undefined;
    return (this.#untold.get(user_id) ?? asked) === "end";
  }

  /** A connection was opened; it has no subscriptions yet. */
  established(limits: ClientLimits): void {
    this.ended();
    this.#isConnected = true;
    this.#usersMax = limits.presence_users_per_connection;
    this.#usersPerFrame = Math.max(1, limits.presence_users_per_frame);
    this.#pace = new Pace(limits.presence_rate, limits.presence_rate);
    for (const user_id of this.#wanted) this.#untold.set(user_id, "begin");
  }

  /** The connection has ended, and its subscriptions with it. */
  ended(): void {
    this.#isConnected = false;
    this.#asked = undefined;
    this.#pausedUntil = 0;
    this.#untold.clear();
  }

  /** A newer token is valid: requests that waited for it continue. */
  tokenRefreshed(): void {
    this.#pausedUntil = 0;
  }

  dueAt(now: number): number {
    if (this.#asked !== undefined && this.#asked.until <= now) this.#askAgain();
    if (this.#asked !== undefined) return this.#asked.until;
    if (this.#untold.size === 0) return NEVER;
    return Math.max(this.#pace.readyAt(now), this.#pausedUntil);
  }

  /** Returns the change to send now. Removals come first, because they free room. */
  next(now: number): ClientFrame | undefined {
    if (this.dueAt(now) > now || this.#asked !== undefined) return undefined;
    const wish: Wish = [...this.#untold.values()].includes("end") ? "end" : "begin";
    const ofWish = [...this.#untold].filter(([, other]) => other === wish);
    const user_ids = ofWish.map(([user_id]) => user_id).slice(0, this.#usersPerFrame);
    for (const user_id of user_ids) this.#untold.delete(user_id);
    const request_id = `presence-${++this.#requests}`;
    this.#pace.spend(now);
    this.#asked = { request_id, user_ids, wish, until: now + REQUEST_TIMEOUT_MS };
    const type = wish === "begin" ? "presence_subscribe" : "presence_unsubscribe";
    return { type, request_id, user_ids };
  }

  /** Handles a snapshot, perhaps the answer to a request made here. */
  answered(request_id: string): void {
    if (this.#asked?.request_id !== request_id) return;
    this.#backOff.reset();
    this.#asked = undefined;
  }

  /**
   * Handles an error; returns the users who are not subscribed because of it, or undefined if it
   * belongs to something else.
   */
  refused(error: ErrorFrame, now: number): UserId[] | undefined {
    const asked = this.#asked;
    if (asked === undefined || asked.request_id !== error.request_id) return undefined;
    const verdict = judge(error, this.#backOff);
    if (verdict.kind !== "final") {
      this.#pausedUntil = now + verdict.pauseMs;
      this.#askAgain();
      return [];
    }
    this.#asked = undefined;
    const refused = asked.wish === "begin" ? asked.user_ids : [];
    for (const user_id of refused) this.#wanted.delete(user_id);
    return refused;
  }

  #askAgain(): void {
    const { user_ids, wish } = this.#asked ?? { user_ids: [], wish: "begin" };
    this.#asked = undefined;
    for (const user_id of user_ids) {
      if (!this.#untold.has(user_id)) this.#untold.set(user_id, wish);
    }
  }
}
