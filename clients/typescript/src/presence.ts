/** Who is online, as far as the user may know. */
import { BackOff } from "./back_off.js";
import { RefusedError } from "./error.js";
import { Listeners, type Unsubscribe } from "./listeners.js";
import { PresenceView } from "./presence_view.js";
import type {
  ClientLimits,
  ErrorFrame,
  Presence as PresenceState,
  ServerFrame,
  UserId,
} from "./protocol.gen.js";
import { Watching } from "./watching.js";

/**
 * How long the last word of a connection stands after its end, unless the next one says something:
 * as long as a lease on the server.
 */
const LAST_WORD_MS = 15_000;

/** Whom the application watches, and what is known of them. */
export class Presence {
  /** What tells the server; for the client's own use. */
  readonly watching: Watching;
  readonly #view = new PresenceView();
  readonly #changed = new Listeners<[PresenceState]>();
  readonly #refused = new Listeners<[UserId[], RefusedError]>();
  readonly #kick: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(kick: () => void, random?: () => number) {
    this.#kick = kick;
    this.watching = new Watching(new BackOff(random));
  }

  /**
   * Watches users from now on, on this connection and every later one. Each is told of, also if
   * they were watched already. If they are too many together, none is, and it throws.
   */
  subscribe(user_ids: UserId[]): void {
    this.watching.subscribe(user_ids);
    for (const user_id of user_ids) this.#view.watch(user_id);
    this.#kick();
  }

  /**
   * Watches users no longer. Those who share an active chat with this user are told of all the
   * same.
   */
  unsubscribe(user_ids: UserId[]): void {
    this.watching.unsubscribe(user_ids);
    for (const user_id of user_ids) this.#view.forget(user_id);
    this.#kick();
  }

  /** What is known of a user: `unknown` too is an answer, and means what it says. */
  get(user_id: UserId): PresenceState {
    return this.#view.get(user_id) ?? { user_id, status: "unknown" };
  }

  /** Tells of everybody who comes or goes, or is no longer or again to be known about. */
  onChange(listener: (presence: PresenceState) => void): Unsubscribe {
    return this.#changed.add(listener);
  }

  /** Tells of users who are not watched, because the server refuses it for good. */
  onRefused(listener: (user_ids: UserId[], error: RefusedError) => void): Unsubscribe {
    return this.#refused.add(listener);
  }

  /** A connection begins. @internal */
  established(limits: ClientLimits): void {
    this.watching.established(limits);
  }

  /** It is over. @internal */
  ended(): void {
    this.watching.ended();
    this.#view.ended();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      for (const presence of this.#view.lose()) this.#changed.tell(presence);
    }, LAST_WORD_MS);
  }

  /** The client is closed. @internal */
  close(): void {
    clearTimeout(this.#timer);
  }

  /** A frame came. @internal */
  onFrame(frame: ServerFrame): void {
    if (frame.type === "presence_snapshot") {
      this.watching.answered(frame.request_id);
      for (const presence of frame.users) this.#take(presence);
    } else if (frame.type === "presence_changed") {
      const { type: _type, timestamp: _timestamp, ...presence } = frame;
      this.#take(presence);
    } else if (frame.type === "token_refreshed") this.watching.tokenRefreshed();
  }

  /** An error came; answers whether it was about this. @internal */
  refused(error: ErrorFrame, now: number): boolean {
    const user_ids = this.watching.refused(error, now);
    for (const user_id of user_ids ?? []) this.#view.forget(user_id);
    if (user_ids !== undefined && user_ids.length > 0) {
      this.#refused.tell(user_ids, new RefusedError(error));
    }
    return user_ids !== undefined;
  }

  /** What is said of somebody who is being left alone was on its way already. */
  #take(presence: PresenceState): void {
    if (this.watching.isEnding(presence.user_id)) return;
    if (this.#view.take(presence)) this.#changed.tell(presence);
  }
}
