/** Keeps the replica of a session's queue current, over the connections that come and go. */

import type { PartyConnection } from "./connection.js";
import { EVENTS_REPLAY, QUEUE_HEAD, QUEUE_UPDATES } from "./documents.js";
import type { Hashes, Position, QueueDelta, RawQueueEvent } from "./events.js";
import { queueEventOf } from "./events.js";
import type { ConfirmedQueue } from "./queue.js";
import { REPLAY_MAX, Replica, type Verdict } from "./replica.js";

/** How long an answer about the queue may take. */
const ANSWER_TIMEOUT_MS = 10_000;

/** Whole states are not asked for more often: what is wrong for ever must not cost much. */
const RESYNC_INTERVAL_MS = 1000;

/** Who is told what. */
export interface SyncListener {
  /** An event became part of the queue. */
  applied(event: QueueDelta): void;
  /** The queue changed; `isWhole` if a whole state came. */
  changed(isWhole: boolean): void;
  /** The stream is over although the connection is not. */
  ended(): void;
}

/** The stream of the queue, what it missed, and whether it is right. */
export class QueueSync {
  /** How often events were asked for again, and how often the whole state was. */
  replays = 0;
  resyncs = 0;
  readonly #replica = new Replica();
  readonly #sessionId: string;
  readonly #verifyAfterMs: number;
  readonly #listener: SyncListener;
  #connection: PartyConnection | null = null;
  #stopStream: () => void = () => {};
  /** Which stream is listened to: what belongs to an earlier one no longer counts. */
  #stream = 0;
  #isReplaying = false;
  #resyncedAt = Number.NEGATIVE_INFINITY;
  #resync: ReturnType<typeof setTimeout> | undefined;
  #quiet: ReturnType<typeof setTimeout> | undefined;

  constructor(sessionId: string, verifyAfterMs: number, listener: SyncListener) {
    this.#sessionId = sessionId;
    this.#verifyAfterMs = verifyAfterMs;
    this.#listener = listener;
  }

  /** The queue as the server has it; null before it was heard of. */
  get queue(): ConfirmedQueue | null {
    return this.#replica.queue;
  }

  /** Goes on over this connection, on which the session was joined. */
  begin(connection: PartyConnection): void {
    this.stop();
    this.#connection = connection;
    this.#subscribe(connection);
  }

  /** Hears nothing more until it goes on. */
  stop(): void {
    this.#connection = null;
    this.#endStream();
    clearTimeout(this.#resync);
    clearTimeout(this.#quiet);
  }

  #subscribe(connection: PartyConnection): void {
    this.#endStream();
    this.#replica.restart();
    const stream = this.#stream;
    const isCurrent = () => stream === this.#stream;
    const request = { query: QUEUE_UPDATES, variables: { sessionId: this.#sessionId } };
    this.#stopStream = connection.subscribe(request, {
      next: (data) => isCurrent() && this.#hear(data.queueUpdates as RawQueueEvent),
      ended: () => isCurrent() && this.#listener.ended(),
    });
  }

  #endStream(): void {
    this.#stream += 1;
    this.#isReplaying = false;
    this.#stopStream();
    this.#stopStream = () => {};
  }

  #hear(raw: RawQueueEvent): void {
    const event = queueEventOf(raw);
    if (event === null) {
      return;
    }
    const verdict = this.#replica.hear(event, performance.now(), this.#applied);
    this.#listener.changed(event.type === "FullSync");
    this.#act(verdict);
  }

  readonly #applied = (event: QueueDelta): void => this.#listener.applied(event);

  #act(verdict: Verdict): void {
    clearTimeout(this.#quiet);
    // What comes meanwhile puts off the comparison, but not the end of the patience with damage.
    const wait = Math.min(this.#verifyAfterMs, this.#replica.patienceMs(performance.now()));
    this.#quiet = setTimeout(() => void this.#verify(), wait);
    if (verdict === "replay") {
      void this.#replay();
    } else if (verdict === "resync") {
      this.#fetchAll();
    }
  }

  /** Asks for the events that are missing. Those that come meanwhile wait. */
  async #replay(): Promise<void> {
    const [connection, queue, stream] = [this.#connection, this.queue, this.#stream];
    if (connection === null || queue === null || this.#isReplaying) {
      return;
    }
    this.#isReplaying = true;
    this.replays += 1;
    const variables = { sessionId: this.#sessionId, sinceSequence: queue.sequence };
    const request = { query: EVENTS_REPLAY, variables };
    const answer = await connection.run<Replayed>(request, ANSWER_TIMEOUT_MS).catch(() => null);
    if (stream !== this.#stream) {
      return;
    }
    this.#isReplaying = false;
    if (answer === null) {
      return this.#fetchAll();
    }
    const events = answer.eventsReplay.events.map(queueEventOf).filter((event) => event !== null);
    const verdict = this.#replica.replayed(events, performance.now(), this.#applied);
    this.#listener.changed(false);
    this.#act(verdict);
  }

  /** Begins a new stream, which begins with the whole state. */
  #fetchAll(): void {
    const connection = this.#connection;
    if (connection === null) {
      return;
    }
    this.resyncs += 1;
    this.#endStream();
    const wait = Math.max(0, this.#resyncedAt + RESYNC_INTERVAL_MS - performance.now());
    this.#resyncedAt = performance.now() + wait;
    clearTimeout(this.#resync);
    if (wait === 0) {
      return this.#subscribe(connection);
    }
    this.#resync = setTimeout(() => this.#subscribe(connection), wait);
  }

  /** Nothing has happened for a while: compares this copy with itself, and with the server's. */
  async #verify(): Promise<void> {
    const [connection, stream] = [this.#connection, this.#stream];
    if (connection === null) {
      return;
    }
    if (this.#replica.verdict(performance.now()) === "resync") {
      return this.#act("resync");
    }
    const request = { query: QUEUE_HEAD, variables: { sessionId: this.#sessionId } };
    const answer = await connection.run<Head>(request, ANSWER_TIMEOUT_MS).catch(() => null);
    const head = answer?.session?.queueState;
    if (stream === this.#stream) {
      this.#act(head ? this.#compare(head) : "fine");
    }
  }

  #compare(head: Position & Hashes): Verdict {
    const queue = this.queue;
    if (queue === null || head.incarnation !== queue.incarnation) {
      return "resync";
    }
    const gap = head.sequence - queue.sequence;
    if (gap > 0) {
      return gap <= REPLAY_MAX ? "replay" : "resync";
    }
    const { stateHash, orderHash } = queue.hashes;
    const agrees = head.stateHash === stateHash && head.orderHash === orderHash;
    return gap < 0 || agrees ? "fine" : "resync";
  }
}

interface Replayed {
  readonly eventsReplay: { readonly events: readonly RawQueueEvent[] };
}

interface Head {
  readonly session: { readonly queueState: Position & Hashes } | null;
}
