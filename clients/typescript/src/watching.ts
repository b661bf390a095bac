/** Whose presence the application wants to know, and telling the server so on every connection. */
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

/** Whom the application watches. */
export class Watching implements FrameSource {
  readonly #backOff: BackOff;
  /** What the application wants, whatever happens to connections. */
  readonly #wanted = new Set<UserId>();
  /** What the server is still to be told. A later wish takes the place of an earlier one. */
  readonly #untold = new Map<UserId, Wish>();
  /** The request on its way. There is one at a time, so that wishes arrive in their order. */
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

  /** The application wants to watch users: all or, if they are too many, none. */
  subscribe(user_ids: UserId[]): void {
    const all = new Set([...this.#wanted, ...user_ids]);
    const max = this.#usersMax;
    if (all.size > max) {
      throw new HeartlineError("TOO_MANY_USERS", `at most ${max} users can be watched`);
    }
    for (const user_id of user_ids) {
      this.#wanted.add(user_id);
      if (this.#isConnected) this.#untold.set(user_id, "begin");
    }
  }

  /** It does no longer. */
  unsubscribe(user_ids: UserId[]): void {
    for (const user_id of user_ids) {
      const wasWanted = this.#wanted.delete(user_id);
      if (this.#isConnected && wasWanted) this.#untold.set(user_id, "end");
    }
  }

  /** Whether what the server still says of a user is of no interest any more. */
  isEnding(user_id: UserId): boolean {
    const asked = this.#asked?.user_ids.includes(user_id) ? this.#asked.wish : undefined;
    return (this.#untold.get(user_id) ?? asked) === "end";
  }

  /** A connection begins, which watches nobody yet. */
  established(limits: ClientLimits): void {
    this.ended();
    this.#isConnected = true;
    this.#usersMax = limits.presence_users_per_connection;
    this.#usersPerFrame = Math.max(1, limits.presence_users_per_frame);
    this.#pace = new Pace(limits.presence_rate, limits.presence_rate);
    for (const user_id of this.#wanted) this.#untold.set(user_id, "begin");
  }

  /** The connection is over, and its watches with it. */
  ended(): void {
    this.#isConnected = false;
    this.#asked = undefined;
    this.#pausedUntil = 0;
    this.#untold.clear();
  }

  /** A newer token is in force: what waited for it goes on. */
  tokenRefreshed(): void {
    this.#pausedUntil = 0;
  }

  dueAt(now: number): number {
    if (this.#asked !== undefined && this.#asked.until <= now) this.#askAgain();
    if (this.#asked !== undefined) return this.#asked.until;
    if (this.#untold.size === 0) return NEVER;
    return Math.max(this.#pace.readyAt(now), this.#pausedUntil);
  }

  /** What to tell it now. Ends come first, because they make room. */
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

  /** A snapshot came, perhaps to what was asked here. */
  answered(request_id: string): void {
    if (this.#asked?.request_id !== request_id) return;
    this.#backOff.reset();
    this.#asked = undefined;
  }

  /**
   * An error came; answers whom nobody watches because of it, or undefined if it is about something
   * else.
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
