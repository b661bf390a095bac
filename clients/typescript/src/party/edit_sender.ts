/** Sends edits one after the other, in order, until all are answered. */

import type { PartyConnection } from "./connection.js";
import { requestOf } from "./documents.js";
import type { Edit } from "./edit.js";
import { PartyError } from "./error.js";
import type { Position, QueueDelta } from "./events.js";
import { type PendingEdit, PendingEdits } from "./pending.js";
import type { ConfirmedQueue } from "./queue.js";
import { randomId } from "./random_id.js";

/** How long an answered edit stays visible if its event does not arrive. */
const SHOWN_AFTER_ANSWER_MS = 2000;

const FIRST_RETRY_MS = 200;
const LAST_RETRY_MS = 3000;

/** The callbacks of the sender. */
export interface SenderListener {
  /** The visible queue has changed. */
  changed(): void;
  /** The server reports that this client is not in the session. */
  removed(): void;
}

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: PartyError) => void;
  readonly timer: ReturnType<typeof setTimeout>;
  wasSent: boolean;
}

/** The edits of one session. */
export class EditSender {
  readonly pending = new PendingEdits();
  readonly #waiting = new Map<PendingEdit, Waiting>();
  /** Timers that remove answered edits. */
  readonly #shown = new Set<ReturnType<typeof setTimeout>>();
  readonly #timeoutMs: number;
  readonly #listener: SenderListener;
  #connection: PartyConnection | null = null;
  #isSending = false;
  #wake: () => void = () => {};

  constructor(timeoutMs: number, listener: SenderListener) {
    this.#timeoutMs = timeoutMs;
    this.#listener = listener;
  }

  /** Makes an edit: it is visible at once, and settled when the server has answered. */
  edit(edit: Edit): Promise<void> {
    return new Promise((resolve, reject) => {
      const pending = this.pending.push(randomId(), edit);
      const timer = setTimeout(() => this.#expire(pending), this.#timeoutMs);
      this.#waiting.set(pending, { resolve, reject, timer, wasSent: false });
      this.#listener.changed();
      void this.#send();
    });
  }

  /** Continues on this connection, after the join. Unanswered edits are sent again. */
  begin(connection: PartyConnection): void {
    this.#connection = connection;
    this.#wake();
    void this.#send();
  }

  /** Pauses sending. */
  stop(): void {
    this.#connection = null;
  }

  /** An event was applied to the confirmed queue. Its edit is done, even if no answer arrives. */
  confirm(event: QueueDelta): void {
    const done = this.pending.confirm(event);
    if (done !== null) {
      this.#take(done)?.resolve();
    }
  }

  /** The confirmed queue was replaced. */
  settle(queue: ConfirmedQueue | null): void {
    if (queue !== null) {
      this.pending.settle(queue.contents, queue);
    }
  }

  /** Rejects all edits. Edits that were sent may have been applied, or may still be. */
  fail(error: PartyError): void {
    this.stop();
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const timer of this.#shown) {
      clearTimeout(timer);
    }
    this.#shown.clear();
    this.pending.clear();
    const { code, message } = error;
    for (const { reject, timer, wasSent } of waiting) {
      clearTimeout(timer);
      reject(wasSent ? new PartyError(code, message, { outcome: "unknown" }) : error);
    }
    this.#wake();
  }

  async #send(): Promise<void> {
    if (this.#isSending) {
      return;
    }
    this.#isSending = true;
    let failures = 0;
    for (;;) {
      const [connection, pending] = [this.#connection, this.pending.next];
      if (connection === null || pending === null) {
        break;
      }
      const error = await this.#try(connection, pending);
      failures = error === null ? 0 : failures + 1;
      if (error !== null && this.pending.has(pending) && connection === this.#connection) {
        const own = Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LAST_RETRY_MS);
        const { retryAfterSeconds } = error;
        await this.#pause(retryAfterSeconds === null ? own : retryAfterSeconds * 1000);
      }
    }
    this.#isSending = false;
  }

  /** Sends one edit. Returns the error if the edit should be retried. */
  async #try(connection: PartyConnection, pending: PendingEdit): Promise<PartyError | null> {
    const waiting = this.#waiting.get(pending);
    if (waiting !== undefined) {
      waiting.wasSent = true;
    }
    try {
      const request = requestOf(pending.edit, pending.correlationId);
      const answer = await connection.run<Answer>(request, this.#timeoutMs);
      this.#answered(pending, answer);
      return null;
    } catch (thrown) {
      const error = thrown as PartyError;
      if (error.code === "CONNECTION_LOST" && connection === this.#connection) {
        this.stop();
      }
      if (error.code === "NOT_A_MEMBER") {
        this.#listener.removed();
        return error;
      }
      if (error.isRetryable) {
        return error;
      }
      this.#refused(pending, error);
      return null;
    }
  }

  #answered(pending: PendingEdit, answer: Answer): void {
    pending.isAnswered = true;
    pending.answeredAt = answer.setQueue ?? null;
    this.#take(pending)?.resolve();
    const timer = setTimeout(() => {
      this.#shown.delete(timer);
      this.#forget(pending);
    }, SHOWN_AFTER_ANSWER_MS);
    this.#shown.add(timer);
    this.#listener.changed();
  }

  #refused(pending: PendingEdit, error: PartyError): void {
    const waiting = this.#take(pending);
    this.#forget(pending);
    waiting?.reject(error);
  }

  #expire(pending: PendingEdit): void {
    const waiting = this.#take(pending);
    const outcome = waiting?.wasSent ? "unknown" : "rejected";
    const seconds = Math.round(this.#timeoutMs / 1000);
    this.#forget(pending);
    this.#wake();
    const message = `The server did not answer within ${seconds} seconds`;
    waiting?.reject(new PartyError("TIMEOUT", message, { outcome }));
  }

  #forget(pending: PendingEdit): void {
    if (this.pending.has(pending)) {
      this.pending.drop(pending);
      this.#listener.changed();
    }
  }

  #take(pending: PendingEdit): Waiting | undefined {
    const waiting = this.#waiting.get(pending);
    this.#waiting.delete(pending);
    clearTimeout(waiting?.timer);
    return waiting;
  }

  #pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

interface Answer {
  readonly setQueue?: Position;
}
