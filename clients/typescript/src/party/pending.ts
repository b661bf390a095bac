/**
 * The edits that the server has not confirmed. There is one copy of the confirmed queue. The
 * visible queue is that copy with these edits applied, so removing a failed edit reverts it,
 * whatever happened meanwhile.
 */

import { type Edit, contentsWith } from "./edit.js";
import { PartyError } from "./error.js";
import type { Position, QueueContents, QueueDelta } from "./events.js";

/** The maximum number of pending edits. */
export const PENDING_MAX = 50;

/** A pending edit. */
export interface PendingEdit {
  /** The correlation id. The server applies the edits of one id once. */
  readonly correlationId: string;
  readonly edit: Edit;
  /**
   * Whether the server has confirmed it. Its event may arrive later, or never if nothing changed.
   */
  isAnswered: boolean;
  /** The position of the queue after the edit, if the answer contains it. */
  answeredAt: Position | null;
}

/** The pending edits, oldest first. */
export class PendingEdits {
  #list: PendingEdit[] = [];

  /** The number of pending edits. */
  get size(): number {
    return this.#list.length;
  }

  /** The oldest edit that the server has not answered. */
  get next(): PendingEdit | null {
    return this.#list.find((pending) => !pending.isAnswered) ?? null;
  }

  /** Adds an edit. Throws if there are too many. */
  push(correlationId: string, edit: Edit): PendingEdit {
    if (this.#list.length >= PENDING_MAX) {
      const message = `${PENDING_MAX} edits are pending; this one was not accepted`;
      throw new PartyError("TOO_MANY_PENDING", message);
    }
    const pending = { correlationId, edit, isAnswered: false, answeredAt: null };
    this.#list.push(pending);
    return pending;
  }

  /** Removes an edit, if it is still pending: it was confirmed, or failed. */
  drop(pending: PendingEdit): void {
    this.#list = this.#list.filter((other) => other !== pending);
  }

  /** Removes all edits. */
  clear(): void {
    this.#list = [];
  }

  /** Whether an edit is pending. */
  has(pending: PendingEdit): boolean {
    return this.#list.includes(pending);
  }

  /**
   * An event was applied to the confirmed queue: removes the edit that caused it, and returns it if
   * it was pending. Set-and-add causes two events and is done with the second.
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

  /** Removes answered edits that the confirmed queue already shows. */
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

  /** The visible queue for these confirmed contents. */
  shown(contents: QueueContents): QueueContents {
    return this.#list.reduce((shown, { edit }) => contentsWith(shown, edit), contents);
  }
}
