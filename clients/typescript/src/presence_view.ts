/** What a client knows of the presence of others. */
import type { Presence, UserId } from "./protocol.gen.js";

/** Users whose presence is kept although nobody asked for it. The oldest give way. */
const UNASKED_MAX = 1000;

/**
 * The presence of others as far as this client was told.
 *
 * What the server says may come late or twice: a state counts only if its version is newer than the
 * one known. `unknown` has no version. It always counts, and so does whatever follows it, and
 * whatever is said first on another connection.
 */
export class PresenceView {
  /** What is known, and above which version news begin; none if whatever follows counts. */
  readonly #known = new Map<UserId, { presence: Presence; version: number | undefined }>();
  /** Users who are asked for and therefore never give way. */
  readonly #watched = new Set<UserId>();

  /** What is known of a user; none if nothing was ever said. */
  get(user_id: UserId): Presence | undefined {
    return this.#known.get(user_id)?.presence;
  }

  /**
   * Takes what the server says. Answers whether that is news: what is late, and what says only what
   * is known, is not.
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

  /** A user is asked for from now on. What was known is forgotten, so that the answer is news. */
  watch(user_id: UserId): void {
    this.forget(user_id);
    this.#watched.add(user_id);
  }

  /** A user is asked for no longer, and nothing of them is known. */
  forget(user_id: UserId): void {
    this.#known.delete(user_id);
    this.#watched.delete(user_id);
  }

  /** The connection is over: whatever the next one says counts. Until then the last word stands. */
  ended(): void {
    for (const known of this.#known.values()) known.version = undefined;
  }

  /**
   * It has been over for so long that nobody knows any more what was not said again. Answers whose
   * state has changed by that.
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

/**
 * Whether two states say the same to a person. A version that rose without a change says nothing.
 */
function isSame(one: Presence, other: Presence): boolean {
  const isBothStale = (one.stale ?? false) === (other.stale ?? false);
  return one.status === other.status && one.last_seen === other.last_seen && isBothStale;
}
