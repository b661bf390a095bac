/** Keeps the replica of a session's queue current across connections. */

import type { PartyConnection } from "./connection.js";
import { EVENTS_REPLAY, QUEUE_HEAD, QUEUE_UPDATES } from "./documents.js";
import type { Hashes, Position, QueueDelta, RawQueueEvent } from "./events.js";
import { queueEventOf } from "./events.js";
import type { ConfirmedQueue } from "./queue.js";
import { REPLAY_MAX, Replica, type Verdict } from "./replica.js";

/** The time limit for requests about the queue. */
const ANSWER_TIMEOUT_MS = 10_000;

/** The shortest interval between requests of whole states, so that permanent damage stays cheap. */
const RESYNC_INTERVAL_MS = 1000;

/** The callbacks of the sync. */
export interface SyncListener {
  /** An event was applied to the queue. */
  applied(event: QueueDelta): void;
  /** The queue changed; `isWhole` if a whole state arrived. */
  changed(isWhole: boolean): void;
  /** The stream has ended although the connection has not. */
  ended(): void;
}

/** The stream of the queue, its missing events, and its checks. */
export class QueueSync {
  /** How often events, and the whole state, were requested again. */
  replays = 0;
  resyncs = 0;
  readonly #replica = new Replica();
  readonly #sessionId: string;
  readonly #verifyAfterMs: number;
  readonly #listener: SyncListener;
  #connection: PartyConnection | null = null;
  #stopStream: () => void = () => {};
  /** The current stream: events of an earlier one are ignored. */
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

  /** The confirmed queue; null before the first state. */
  get queue(): ConfirmedQueue | null {
    return this.#replica.queue;
  }

  /** Continues on this connection, after the join. */
  begin(connection: PartyConnection): void {
    this.stop();
    this.#connection = connection;
    this.#subscribe(connection);
  }

  /** Pauses until it continues. */
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
    // New events delay the comparison, but not the deadline for damage.
    const wait = Math.min(this.#verifyAfterMs, this.#replica.patienceMs(performance.now()));
    this.#quiet = setTimeout(() => void this.#verify(), wait);
    if (verdict === "replay") {
      void this.#replay();
    } else if (verdict === "resync") {
      this.#fetchAll();
    }
  }

  /** Requests the missing events. Events that arrive meanwhile are held. */
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

  /** Starts a new stream, which begins with the whole state. */
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

  /** No event for a while: checks this copy against its own hashes and the server's. */
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
