/**
 * The edits that the server has not confirmed.
 *
 * There is one copy of the confirmed queue. What the screen shows is these edits done on top of it,
 * so an edit that fails is taken back by forgetting it, whatever happened meanwhile.
 */

import { type Edit, contentsWith } from "./edit.js";
import { PartyError } from "./error.js";
import type { Position, QueueContents, QueueDelta } from "./events.js";

/** Edits that may wait at once. */
export const PENDING_MAX = 50;

/** An edit that waits. */
export interface PendingEdit {
  /** What this client calls it. The server does what has one name once. */
  readonly correlationId: string;
  readonly edit: Edit;
  /** Whether the server has said yes. Its event may come later, or never if nothing changed. */
  isAnswered: boolean;
  /** Where the queue is once it is done, if the answer said so. */
  answeredAt: Position | null;
}

/** The edits, the oldest first. */
export class PendingEdits {
  #list: PendingEdit[] = [];

  /** How many there are. */
  get size(): number {
    return this.#list.length;
  }

  /** The oldest one that the server has not answered. */
  get next(): PendingEdit | null {
    return this.#list.find((pending) => !pending.isAnswered) ?? null;
  }

  /** Takes one more. Throws if there are too many. */
  push(correlationId: string, edit: Edit): PendingEdit {
    if (this.#list.length >= PENDING_MAX) {
      const message = `${PENDING_MAX} edits wait for the server; this one was not taken`;
      throw new PartyError("TOO_MANY_PENDING", message);
    }
    const pending = { correlationId, edit, isAnswered: false, answeredAt: null };
    this.#list.push(pending);
    return pending;
  }

  /** Forgets one, if it is still there: it is confirmed, or it failed. */
  drop(pending: PendingEdit): void {
    this.#list = this.#list.filter((other) => other !== pending);
  }

  /** Forgets all. */
  clear(): void {
    this.#list = [];
  }

  /** Whether one is still here. */
  has(pending: PendingEdit): boolean {
    return this.#list.includes(pending);
  }

  /**
   * An event is part of the confirmed queue now: forgets the edit that caused it, and answers it if
   * it was one of these. Set-and-add is two events, and done with the second.
   */
  confirm(event: QueueDelta): PendingEdit | null {
    const { correlationId, type } = event;
    const found = this.#list.find((pending) => pending.correlationId === correlationId);
    const isHalf = found?.edit.name === "setCurrentClimb" && type === "QueueItemAdded";
    if (found === undefined || isHalf) {
      return null;
    }
    this.drop(found);
    return found;
  }

  /** Forgets those that were answered and that the confirmed queue already shows. */
  settle(contents: QueueContents, at: Position): void {
    this.#list = this.#list.filter(({ isAnswered, answeredAt, edit }) => {
      if (!isAnswered) {
        return true;
      }
      if (answeredAt !== null && answeredAt.incarnation === at.incarnation) {
        return answeredAt.sequence > at.sequence;
      }
      return contentsWith(contents, edit) !== contents;
    });
  }

  /** What the screen shows where the server has these contents. */
  shown(contents: QueueContents): QueueContents {
    return this.#list.reduce((shown, { edit }) => contentsWith(shown, edit), contents);
  }
}
