/** The confirmed queue of a session: it takes events in their order and checks each. */

import type { FullSync, QueueDelta, QueueEvent } from "./events.js";
import { type ConfirmedQueue, isVerified, queueAfter, queueOf } from "./queue.js";

/** How far behind it may be to catch up event by event; the server keeps so many. */
export const REPLAY_MAX = 100;

/** Events that may wait for others before them. */
const LATER_MAX = 1000;

/** How long a whole state that was damaged is put up with before another one is asked for. */
export const DAMAGE_COOLDOWN_MS = 30_000;

/** What an event calls for: nothing, the events before it, or a whole state. */
export type Verdict = "fine" | "replay" | "resync";

/** A copy of the queue. Everything here is pure but for what it keeps. */
export class Replica {
  #queue: ConfirmedQueue | null = null;
  /** Events that wait until those before them are there, by sequence. */
  readonly #later = new Map<number, QueueDelta>();
  /** Whether the last whole state had the hashes that are computed here. */
  #isComparable = true;
  /** Whether something is missing from it, or may be. */
  #isDamaged = false;
  /** When a whole state was last asked for because of that. */
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

  /** Takes what a replay answered. Whatever it leaves open calls for a whole state. */
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

  /** Forgets what waits: a new stream begins, with a whole state. */
  restart(): void {
    this.#later.clear();
  }

  /** What the copy itself calls for: it is damaged, or not what the server said that it is. */
  verdict(now: number): Verdict {
    if (this.#isDamaged) {
      return this.#damaged(now);
    }
    return this.#queue === null || isVerified(this.#queue) ? "fine" : "resync";
  }

  /** How long the damage is still put up with; without end where there is none. */
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

  /** Applies what is next, as long as it is there. */
  #advance(now: number, applied: (event: QueueDelta) => void): Verdict {
    for (;;) {
      const queue = this.#queue as ConfirmedQueue;
      const event = this.#later.get(queue.sequence + 1);
      if (event === undefined) {
        return this.#later.size === 0 ? "fine" : "replay";
      }
      this.#later.delete(event.sequence);
      if (event.type === "QueueItemAdded" && event.item === null) {
        // Its number is used up, so that what follows can be applied until a whole state comes.
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
