/** The confirmed queue of a session: applies events in order and checks each. */

import type { FullSync, QueueDelta, QueueEvent } from "./events.js";
import { type ConfirmedQueue, isVerified, queueAfter, queueOf } from "./queue.js";

/** The largest gap that is closed event by event; the server keeps this many events. */
export const REPLAY_MAX = 100;

/** The maximum number of events held until earlier ones arrive. */
const LATER_MAX = 1000;

/** How long a damaged whole state is accepted before another one is requested. */
export const DAMAGE_COOLDOWN_MS = 30_000;

/** The need of an event: nothing, the events before it, or a whole state. */
export type Verdict = "fine" | "replay" | "resync";

/** A copy of the queue. */
export class Replica {
  #queue: ConfirmedQueue | null = null;
  /** Events held until those before them arrive, by sequence. */
  readonly #later = new Map<number, QueueDelta>();
  /** Whether the last whole state matched its hashes. */
  #isComparable = true;
  /** Whether items are missing from it, or may be. */
  #isDamaged = false;
  /** When a whole state was last requested because of damage. */
  #damagedAt = Number.NEGATIVE_INFINITY;

  /** The queue; null before the first whole state. */
  get queue(): ConfirmedQueue | null {
    return this.#queue;
  }

  /** Takes an event of the stream. */
  hear(event: QueueEvent, now: number, applied: (event: QueueDelta) => void): Verdict {
    if (event.type === "FullSync") {
      return this.#sync(event, now, applied);
    }
    const queue = this.#queue;
    if (queue === null || event.incarnation < queue.incarnation) {
      return "fine";
    }
    if (event.incarnation > queue.incarnation) {
      return "resync";
    }
    const gap = event.sequence - queue.sequence;
    if (gap <= 0) {
      return "fine";
    }
    if (gap > REPLAY_MAX || this.#later.size >= LATER_MAX) {
      return "resync";
    }
    this.#later.set(event.sequence, event);
    return this.#advance(now, applied);
  }

  /** Takes the answer of a replay. If gaps remain, a whole state is required. */
  replayed(
    events: readonly QueueEvent[],
    now: number,
    applied: (event: QueueDelta) => void,
  ): Verdict {
    for (const event of events) {
      if (event.type === "FullSync" && this.#isBehind(event)) {
        continue;
      }
      if (this.hear(event, now, applied) === "resync") {
        return "resync";
      }
    }
    return this.#later.size === 0 ? "fine" : "resync";
  }

  /** Drops the held events: a new stream starts with a whole state. */
  restart(): void {
    this.#later.clear();
  }

  /** The need of the copy: it is damaged, or does not match the server's hashes. */
  verdict(now: number): Verdict {
    if (this.#isDamaged) {
      return this.#damaged(now);
    }
    return this.#queue === null || isVerified(this.#queue) ? "fine" : "resync";
  }

  /** How long the damage is still accepted; infinite without damage. */
  patienceMs(now: number): number {
    const patience = Math.max(0, this.#damagedAt + DAMAGE_COOLDOWN_MS - now);
    return this.#isDamaged ? patience : Number.POSITIVE_INFINITY;
  }

  #sync(event: FullSync, now: number, applied: (event: QueueDelta) => void): Verdict {
    this.#queue = queueOf(event);
    for (const [sequence, later] of this.#later) {
      if (later.incarnation !== event.incarnation || sequence <= event.sequence) {
        this.#later.delete(sequence);
      }
    }
    this.#isComparable = isVerified(this.#queue);
    this.#isDamaged = event.isDamaged || !this.#isComparable;
    const verdict = this.#advance(now, applied);
    return this.#isDamaged && this.#damaged(now) === "resync" ? "resync" : verdict;
  }

  /** Applies the next events while they are there. */
  #advance(now: number, applied: (event: QueueDelta) => void): Verdict {
    for (;;) {
      const queue = this.#queue as ConfirmedQueue;
      const event = this.#later.get(queue.sequence + 1);
      if (event === undefined) {
        return this.#later.size === 0 ? "fine" : "replay";
      }
      this.#later.delete(event.sequence);
      if (event.type === "QueueItemAdded" && event.item === null) {
        // The sequence counts as used, so that later events can be applied until a whole state
        // arrives.
        this.#queue = { ...queue, sequence: event.sequence };
        this.#isComparable = false;
        this.#isDamaged = true;
        const verdict = this.#damaged(now);
        if (verdict !== "fine") {
          return verdict;
        }
        continue;
      }
      const next = queueAfter(queue, event);
      if (next === null || (this.#isComparable && !isVerified(next))) {
        return "resync";
      }
      this.#queue = next;
      applied(event);
    }
  }

  #damaged(now: number): Verdict {
    if (now - this.#damagedAt < DAMAGE_COOLDOWN_MS) {
      return "fine";
    }
    this.#damagedAt = now;
    return "resync";
  }

  #isBehind(event: FullSync): boolean {
    const queue = this.#queue;
    return queue?.incarnation === event.incarnation && queue.sequence >= event.sequence;
  }
}
