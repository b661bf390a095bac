/** Sends edits one after the other, in the order of their making, until all are answered. */

import type { PartyConnection } from "./connection.js";
import { requestOf } from "./documents.js";
import type { Edit } from "./edit.js";
import { PartyError } from "./error.js";
import type { Position, QueueDelta } from "./events.js";
import { type PendingEdit, PendingEdits } from "./pending.js";
import type { ConfirmedQueue } from "./queue.js";
import { randomId } from "./random_id.js";

/** How long an edit that was answered is shown although its event does not come. */
const SHOWN_AFTER_ANSWER_MS = 2000;

const FIRST_RETRY_MS = 200;
const LAST_RETRY_MS = 3000;

/** Who is told what. */
export interface SenderListener {
  /** What the screen shows is another. */
  changed(): void;
  /** The server says that this client is not in the session. */
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
  /** The ends of what is shown because it was answered. */
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

  /** Makes an edit: it is shown at once, and settled when the server has answered. */
  edit(edit: Edit): Promise<void> {
    return new Promise((resolve, reject) => {
      const pending = this.pending.push(randomId(), edit);
      const timer = setTimeout(() => this.#expire(pending), this.#timeoutMs);
      this.#waiting.set(pending, { resolve, reject, timer, wasSent: false });
      this.#listener.changed();
      void this.#send();
    });
  }

  /** Goes on over this connection, on which it has joined. What has no answer is sent again. */
  begin(connection: PartyConnection): void {
    this.#connection = connection;
    this.#wake();
    void this.#send();
  }

  /** Sends nothing until it goes on. */
  stop(): void {
    this.#connection = null;
  }

  /** An event is part of the confirmed queue. Its edit is done, even if no answer ever comes. */
  confirm(event: QueueDelta): void {
    const done = this.pending.confirm(event);
    if (done !== null) {
      this.#take(done)?.resolve();
    }
  }

  /** The confirmed queue is another. */
  settle(queue: ConfirmedQueue | null): void {
    if (queue !== null) {
      this.pending.settle(queue.contents, queue);
    }
  }

  /** Gives all of them up. What was sent may have been done, or may still be. */
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

  /** Sends one edit. Answers the error with which it is to be tried again, if it is. */
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
