/** The client's knowledge of the presence of others. */
import type { Presence, UserId } from "./protocol.gen.js";

/** The number of users kept without a subscription. The oldest are removed first. */
const UNASKED_MAX = 1000;

/**
 * The presence of others, as received. Frames can arrive late or twice: a state counts only if its
 * version is newer than the known one. `unknown` has no version; it always counts, and so does the
 * next state after it, and the first state on another connection.
 */
export class PresenceView {
  /**
   * The known presence, and the version that a newer state must exceed; undefined if any state
   * counts.
   */
  readonly #known = new Map<UserId, { presence: Presence; version: number | undefined }>();
  /** The subscribed users, who are never removed. */
  readonly #watched = new Set<UserId>();

  /** The known presence of a user; undefined if none was received. */
  get(user_id: UserId): Presence | undefined {
    return this.#known.get(user_id)?.presence;
  }

  /**
   * Takes a state from the server. Returns whether it changes anything: a late or repeated state
   * does not.
   */
  take(presence: Presence): boolean {
    const { user_id, version } = presence;
    const known = this.#known.get(user_id);
    const isLate =
      known?.version !== undefined && version !== undefined && version <= known.version;
    if (isLate) return false;
    this.#known.set(user_id, { presence, version });
    this.#makeRoom();
    return known === undefined || !isSame(known.presence, presence);
  }

  /** Subscribes to a user. The old state is removed, so that the answer counts as a change. */
  watch(user_id: UserId): void {
    this.forget(user_id);
    this.#watched.add(user_id);
  }

  /** Unsubscribes from a user and removes the state. */
  forget(user_id: UserId): void {
    this.#known.delete(user_id);
    this.#watched.delete(user_id);
  }

  /**
   * The connection has ended: any state on the next one counts. Until then the last state stays.
   */
  ended(): void {
    for (const known of this.#known.values()) known.version = undefined;
  }

  /**
   * The connection has been down too long: states that were not received again become unknown.
   * Returns the users whose state changed.
   */
  lose(): Presence[] {
    const lost = [...this.#known.values()].filter(
      ({ presence, version }) => version === undefined && presence.status !== "unknown",
    );
    for (const known of lost) {
      const { user_id } = known.presence;
      known.presence = { user_id, status: "unknown", stale: true };
    }
    return lost.map(({ presence }) => presence);
  }

  #makeRoom(): void {
    if (this.#known.size <= this.#watched.size + UNASKED_MAX) return;
    for (const user_id of this.#known.keys()) {
      if (this.#watched.has(user_id)) continue;
      this.#known.delete(user_id);
      return;
    }
  }
}

/** Whether two states look the same to a user. A higher version alone is no difference. */
function isSame(one: Presence, other: Presence): boolean {
  const isBothStale = (one.stale ?? false) === (other.stale ?? false);
  return one.status === other.status && one.last_seen === other.last_seen && isBothStale;
}
