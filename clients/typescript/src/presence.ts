/** The presence of other users, as far as this user may see it. */
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
 * How long a status stays valid after the connection has ended, unless the next connection updates
 * it: as long as a lease on the server.
 */
const LAST_WORD_MS = 15_000;

/** The users whom the application observes, and their presence. */
export class Presence {
  /** Sends the subscriptions; for the client's own use. */
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
   * Subscribes to users, on this connection and every later one. The listener is called for each of
   * them, also for users who were subscribed already. Throws, and subscribes to none of them, if
   * there are too many.
   */
  subscribe(user_ids: UserId[]): void {
    this.watching.subscribe(user_ids);
    for (const user_id of user_ids) this.#view.watch(user_id);
    this.#kick();
  }

  /**
   * Unsubscribes from users. The server still reports users who share an active chat with this
   * user.
   */
  unsubscribe(user_ids: UserId[]): void {
    this.watching.unsubscribe(user_ids);
    for (const user_id of user_ids) this.#view.forget(user_id);
    this.#kick();
  }

  /** The known presence of a user; `unknown` if it is hidden or cannot be read. */
  get(user_id: UserId): PresenceState {
    return this.#view.get(user_id) ?? { user_id, status: "unknown" };
  }

  /** Calls the listener when the presence of a user changes. */
  onChange(listener: (presence: PresenceState) => void): Unsubscribe {
    return this.#changed.add(listener);
  }

  /** Calls the listener with users whom the server refuses to report. */
  onRefused(listener: (user_ids: UserId[], error: RefusedError) => void): Unsubscribe {
    return this.#refused.add(listener);
  }

  /** A connection was opened. @internal */
  established(limits: ClientLimits): void {
    this.watching.established(limits);
  }

  /** The connection has ended. @internal */
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

  /** Handles a frame. @internal */
  onFrame(frame: ServerFrame): void {
    if (frame.type === "presence_snapshot") {
      this.watching.answered(frame.request_id);
      for (const presence of frame.users) this.#take(presence);
    } else if (frame.type === "presence_changed") {
      const { type: _type, timestamp: _timestamp, ...presence } = frame;
      this.#take(presence);
    } else if (frame.type === "token_refreshed") this.watching.tokenRefreshed();
  }

  /** Handles an error; returns whether it belongs to a subscription. @internal */
  refused(error: ErrorFrame, now: number): boolean {
    const user_ids = this.watching.refused(error, now);
    for (const user_id of user_ids ?? []) this.#view.forget(user_id);
    if (user_ids !== undefined && user_ids.length > 0) {
      this.#refused.tell(user_ids, new RefusedError(error));
    }
    return user_ids !== undefined;
  }

  /** Ignores a status that the server sent before it handled the unsubscription. */
  #take(presence: PresenceState): void {
    if (this.watching.isEnding(presence.user_id)) return;
    if (this.#view.take(presence)) this.#changed.tell(presence);
  }
}
