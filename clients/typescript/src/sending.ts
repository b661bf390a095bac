/** From `send` to the durable answer: across connections, tabs and pages. */
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

/** How often others are looked at where they cannot be heard. */
const LOOK_INTERVAL_MS = 2000;

/** What sending needs to know of the rest. */
export interface SendingSetup {
  storage: Storage;
  lock: OutboxLock;
  draftsMax: number;
  highestSeen(chat_id: ChatId): number;
  /** There may be something to send. */
  kick(): void;
}

/** Somebody waits for the end of a message. */
interface Waiter {
  draft: Draft;
  resolve(receipt: Receipt): void;
  reject(error: Error): void;
}

/** What is being sent. */
export class Sending implements FrameSource {
  /**
   * A message is definitely not stored, and nobody here waits to be told: it is from an earlier
   * page, or from another tab.
   */
  readonly onRefused = new Listeners<[Draft, RefusedError]>();
  readonly #setup: SendingSetup;
  readonly #outbox: Outbox;
  readonly #waiters = new Map<string, Waiter>();
  readonly #unsubscribe: Unsubscribe;
  readonly #loading = new Turns(() => this.#load());
  readonly #asking = new Turns(() => this.#askOutcomes());
  #lookTimer: ReturnType<typeof setInterval> | undefined;
  /** The place of the last draft that was read from the storage. */
  #lastOrder = 0;
  /** Changes whenever drafts have to be read from the first again. */
  #term = 0;
  #isClosed = false;

  constructor(setup: SendingSetup, random?: () => number) {
    this.#setup = setup;
    this.#outbox = new Outbox((chat_id) => setup.highestSeen(chat_id), new BackOff(random));
    this.#unsubscribe = setup.storage.onChange(() => this.look());
    if (!setup.storage.hearsOthers) this.#lookOften();
  }

  /** Whether somebody waits for the end of a message. */
  get isAwaited(): boolean {
    return this.#waiters.size > 0;
  }

  /** Takes a message for sending. It resolves once the server has stored it. */
  async send(draft: Draft): Promise<Receipt> {
    if (this.#isClosed) throw closed();
    check(draft);
    const key = keyOf(draft);
    if (this.#waiters.has(key)) throw alreadyWaiting();
    await this.#setup.storage.add(draft, this.#setup.draftsMax);
    if (this.#isClosed) throw closed();
    return await new Promise((resolve, reject) => {
      this.#waiters.set(key, { draft, resolve, reject });
      // Another tab may have been so quick that its answer is there already.
      this.look();
    });
  }

  /** A connection begins. */
  established(limits: ClientLimits): void {
    this.#outbox.established(limits);
    this.#begin();
    this.#setup.lock.acquire(() => {
      this.#begin();
      void this.#loading.take();
      // The one who sent before may have had answers that were not heard of here.
      void this.#asking.take();
    });
  }

  /** It is over: another tab may send now. */
  ended(): void {
    this.#setup.lock.release();
    this.#begin();
  }

  /** A newer token is in force. */
  tokenRefreshed(): void {
    this.#outbox.tokenRefreshed();
  }

  /** Something may have happened in another tab. */
  look(): void {
    void this.#loading.take();
    // Whoever sends knows the answers first.
    if (!this.#setup.lock.isHeld) void this.#asking.take();
  }

  /** Sends nothing more. Whoever waits is told. */
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

  /** An ack came; gives back the message if it was sent here. */
  acked(ack: ServerFrameOf<"message_ack">): Draft | undefined {
    const draft = this.#outbox.acked(ack);
    if (draft === undefined) return undefined;
    const { type: _, request_id: __, ...receipt } = ack;
    this.#settle(draft, { receipt });
    return draft;
  }

  /** An error came; answers the chat if it was about a message. */
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
    // A draft that cannot be removed is sent again with the same id, which changes nothing.
    this.#setup.storage.settle(draft, outcome).catch(() => {});
  }

  #tell(key: string, outcome: Outcome): void {
    const waiter = this.#waiters.get(key);
    this.#waiters.delete(key);
    if ("receipt" in outcome) waiter?.resolve(outcome.receipt);
    else waiter?.reject(new RefusedError(outcome.error));
  }

  /** Nobody tells of what happens in the storage, or it has failed. */
  #lookOften(): void {
    if (!this.#isClosed) this.#lookTimer ??= setInterval(() => this.look(), LOOK_INTERVAL_MS);
  }

  #begin(): void {
    this.#term += 1;
    this.#lastOrder = 0;
    this.#outbox.ended();
  }

  /** Reads what was added, in this tab or in another, in the order in which it was. */
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

  /** Asks how messages ended that another tab has sent. */
  async #askOutcomes(): Promise<void> {
    const waiters = [...this.#waiters];
    if (waiters.length === 0) return;
    const { storage, draftsMax } = this.#setup;
    try {
      // In this order: what is settled between the two has an outcome.
      const waiting = new Set((await storage.draftsAfter(0)).map(keyOf));
      const outcomes = new Map(await storage.outcomes(waiters.map(([key]) => key)));
      for (const [key, { draft }] of waiters) {
        const outcome = outcomes.get(key);
        if (outcome !== undefined) this.#tell(key, outcome);
        // It ended so long ago that only the server remembers how.
        else if (this.#waiters.has(key) && !waiting.has(key)) await storage.add(draft, draftsMax);
      }
    } catch {
      this.#lookOften();
    }
  }
}
