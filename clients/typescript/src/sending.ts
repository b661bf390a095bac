/** Sends messages until they are stored: across connections, tabs and pages. */
import { BackOff } from "./back_off.js";
import { type Draft, type Receipt, type StoredDraft, check, keyOf } from "./draft.js";
import { RefusedError, closed } from "./error.js";
import { type FrameSource, NEVER } from "./frame_source.js";
import { Listeners, type Unsubscribe } from "./listeners.js";
import { alreadyWaiting } from "./memory_storage.js";
import { Outbox } from "./outbox.js";
import type { OutboxLock } from "./outbox_lock.js";
import type {
  ChatId,
  ClientFrame,
  ClientLimits,
  ErrorFrame,
  ServerFrameOf,
} from "./protocol.gen.js";
import type { Outcome, Storage } from "./storage.js";
import { Turns } from "./turns.js";

/** The interval at which the storage is read if it reports no changes of other tabs. */
const LOOK_INTERVAL_MS = 2000;

/** The callbacks of sending. */
export interface SendingSetup {
  storage: Storage;
  lock: OutboxLock;
  draftsMax: number;
  highestSeen(chat_id: ChatId): number;
  /** There may be a frame to send. */
  kick(): void;
}

/** A caller that awaits the result of a message. */
interface Waiter {
  draft: Draft;
  resolve(receipt: Receipt): void;
  reject(error: Error): void;
}

/** The sender of a client. */
export class Sending implements FrameSource {
  /**
   * A message was definitely not stored, and no `send` in this page awaits it: it is from an
   * earlier page, or from another tab.
   */
  readonly onRefused = new Listeners<[Draft, RefusedError]>();
  readonly #setup: SendingSetup;
  readonly #outbox: Outbox;
  readonly #waiters = new Map<string, Waiter>();
  readonly #unsubscribe: Unsubscribe;
  readonly #loading = new Turns(() => this.#load());
  readonly #asking = new Turns(() => this.#askOutcomes());
  #lookTimer: ReturnType<typeof setInterval> | undefined;
  /** The position of the last draft that was read from the storage. */
  #lastOrder = 0;
  /** Changes whenever the drafts must be read from the start. */
  #term = 0;
  #isClosed = false;

  constructor(setup: SendingSetup, random?: () => number) {
    this.#setup = setup;
    this.#outbox = new Outbox((chat_id) => setup.highestSeen(chat_id), new BackOff(random));
    this.#unsubscribe = setup.storage.onChange(() => this.look());
    if (!setup.storage.hearsOthers) this.#lookOften();
  }

  /** Whether a `send` of this page is pending. */
  get isAwaited(): boolean {
    return this.#waiters.size > 0;
  }

  /** Takes a message for sending. Resolves when the server has stored it. */
  async send(draft: Draft): Promise<Receipt> {
    if (this.#isClosed) throw closed();
    check(draft);
    const key = keyOf(draft);
    if (this.#waiters.has(key)) throw alreadyWaiting();
    await this.#setup.storage.add(draft, this.#setup.draftsMax);
    if (this.#isClosed) throw closed();
    return await new Promise((resolve, reject) => {
      this.#waiters.set(key, { draft, resolve, reject });
      // Another tab may already have stored the message.
      this.look();
    });
  }

  /** A connection was opened. */
  established(limits: ClientLimits): void {
    this.#outbox.established(limits);
    this.#begin();
    this.#setup.lock.acquire(() => {
      this.#begin();
      void this.#loading.take();
      // The tab that sent before may have stored results that this tab has not read.
      void this.#asking.take();
    });
  }

  /** The connection has ended: another tab may send. */
  ended(): void {
    this.#setup.lock.release();
    this.#begin();
  }

  /** A newer token is valid. */
  tokenRefreshed(): void {
    this.#outbox.tokenRefreshed();
  }

  /** Another tab may have changed the storage. */
  look(): void {
    void this.#loading.take();
    // The sending tab knows the results first.
    if (!this.#setup.lock.isHeld) void this.#asking.take();
  }

  /** Stops sending, and rejects the pending sends. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#unsubscribe();
    clearInterval(this.#lookTimer);
    this.ended();
    for (const waiter of this.#waiters.values()) waiter.reject(closed());
    this.#waiters.clear();
    await this.#setup.lock.close();
  }

  dueAt(now: number): number {
    return this.#setup.lock.isHeld ? this.#outbox.dueAt(now) : NEVER;
  }

  next(now: number): ClientFrame | undefined {
    return this.#setup.lock.isHeld ? this.#outbox.next(now) : undefined;
  }

  /** See {@link Outbox.unansweredAbove}. */
  unansweredAbove(chat_id: ChatId): number | undefined {
    return this.#outbox.unansweredAbove(chat_id);
  }

  /** Handles an ack; returns the message if it was sent here. */
  acked(ack: ServerFrameOf<"message_ack">): Draft | undefined {
    const draft = this.#outbox.acked(ack);
    if (draft === undefined) return undefined;
    const { type: _, request_id: __, ...receipt } = ack;
    this.#settle(draft, { receipt });
    return draft;
  }

  /** Handles an error; returns the chat if the error belongs to a message. */
  refused(error: ErrorFrame, now: number): ChatId | undefined {
    const refused = this.#outbox.refused(error, now);
    if (refused?.isFinal) {
      const { draft } = refused;
      if (!this.#waiters.has(keyOf(draft))) this.onRefused.tell(draft, new RefusedError(error));
      this.#settle(draft, { error });
    }
    return refused?.draft.chat_id;
  }

  #settle(draft: StoredDraft, outcome: Outcome): void {
    this.#tell(keyOf(draft), outcome);
    // A draft that cannot be removed is sent again with the same id, which has no effect.
    this.#setup.storage.settle(draft, outcome).catch(() => {});
  }

  #tell(key: string, outcome: Outcome): void {
    const waiter = this.#waiters.get(key);
    this.#waiters.delete(key);
    if ("receipt" in outcome) waiter?.resolve(outcome.receipt);
    else waiter?.reject(new RefusedError(outcome.error));
  }

  /** The storage reports no changes, or has failed. */
  #lookOften(): void {
    if (!this.#isClosed) this.#lookTimer ??= setInterval(() => this.look(), LOOK_INTERVAL_MS);
  }

  #begin(): void {
    this.#term += 1;
    this.#lastOrder = 0;
    this.#outbox.ended();
  }

  /** Reads the drafts that were added, in this tab or in another, in order. */
  async #load(): Promise<void> {
    const term = this.#term;
    if (!this.#setup.lock.isHeld) return;
    const drafts = await this.#setup.storage.draftsAfter(this.#lastOrder).catch(() => {
      this.#lookOften();
    });
    if (term !== this.#term) return;
    for (const draft of drafts ?? []) {
      this.#outbox.push(draft);
      this.#lastOrder = draft.order;
    }
    this.#setup.kick();
  }

  /** Reads the results of messages that another tab has sent. */
  async #askOutcomes(): Promise<void> {
    const waiters = [...this.#waiters];
    if (waiters.length === 0) return;
    const { storage, draftsMax } = this.#setup;
    try {
      // In this order: a message settled between the two reads has an outcome.
      const waiting = new Set((await storage.draftsAfter(0)).map(keyOf));
      const outcomes = new Map(await storage.outcomes(waiters.map(([key]) => key)));
      for (const [key, { draft }] of waiters) {
        const outcome = outcomes.get(key);
        if (outcome !== undefined) this.#tell(key, outcome);
        // The outcome is no longer in the storage: only the server knows it.
        else if (this.#waiters.has(key) && !waiting.has(key)) await storage.add(draft, draftsMax);
      }
    } catch {
      this.#lookOften();
    }
  }
}
