/** The `graphql-ws` client as npm has it, used as web clients of the reference system use it. */
import { type Client, type ClientOptions, createClient } from "graphql-ws";
import WebSocket from "ws";
import { eventually } from "../harness/eventually.js";
import { uuid } from "./climbs.js";

const ITEM = "uuid climb { uuid name angle mirrored }";

const JOIN = `mutation Join($sessionId: ID!, $boardPath: String!, $username: String,
  $avatarUrl: String, $initialQueue: [ClimbQueueItemInput!],
  $initialCurrentClimb: ClimbQueueItemInput, $sessionName: String) {
  joinSession(sessionId: $sessionId, boardPath: $boardPath, username: $username,
    avatarUrl: $avatarUrl, initialQueue: $initialQueue, initialCurrentClimb: $initialCurrentClimb,
    sessionName: $sessionName) {
    id name boardPath clientId isLeader users { id username isLeader avatarUrl }
    queueState { sequence stateHash queue { ${ITEM} } currentClimbQueueItem { ${ITEM} } }
  } }`;

const QUEUE_UPDATES = `subscription QueueUpdates($sessionId: ID!) {
  queueUpdates(sessionId: $sessionId) { __typename
    ... on FullSync { sequence state { sequence stateHash queue { ${ITEM} }
      currentClimbQueueItem { ${ITEM} } } }
    ... on QueueItemAdded { sequence addedItem: item { ${ITEM} } position }
    ... on QueueItemRemoved { sequence uuid }
    ... on QueueReordered { sequence uuid oldIndex newIndex }
    ... on CurrentClimbChanged { sequence currentItem: item { ${ITEM} } clientId correlationId }
    ... on ClimbMirrored { sequence mirrored } } }`;

const SESSION_UPDATES = `subscription SessionUpdates($sessionId: ID!) {
  sessionUpdates(sessionId: $sessionId) { __typename
    ... on UserJoined { user { id username isLeader avatarUrl } }
    ... on UserLeft { userId }
    ... on LeaderChanged { leaderId }
    ... on SessionEnded { reason newPath } } }`;

/** The answer of an operation. */
export type Data = Record<string, any>;

/** A close as the client tells it. */
export interface Closed {
  readonly code: number;
  readonly reason: string;
}

/** One client. */
export class Guest {
  readonly client: Client;
  /** Every close of a socket. */
  readonly closes: Closed[] = [];
  /** The frames that were sent, over all sockets, by what they ask for. */
  readonly sent: string[] = [];
  /** How often it was acknowledged. */
  connections = 0;
  /** The events of the subscriptions. */
  readonly queueEvents: Data[] = [];
  readonly sessionEvents: Data[] = [];
  /** How the subscriptions ended: with an error, or `complete`. */
  readonly ends: unknown[] = [];

  constructor(url: string | (() => string), options: Partial<ClientOptions> = {}) {
    const { sent } = this;
    /** The socket of npm's `ws`, which notes what it is given. */
    class Noting extends WebSocket {
      override send(data: any, ...rest: any[]): void {
        sent.push(kindOf(String(data)));
        super.send(data, ...(rest as [any]));
      }
    }
    this.client = createClient({
      url,
      webSocketImpl: Noting,
      lazy: false,
      // As the web client of the reference system has it: else a refused connection is final.
      shouldRetry: () => true,
      retryAttempts: 300,
      retryWait: () => new Promise((resolve) => setTimeout(resolve, 100)),
      onNonLazyError: () => {},
      ...options,
      on: {
        closed: (event) => this.closes.push(event as Closed),
        connected: () => (this.connections += 1),
        ...options.on,
      },
    });
  }

  /** Runs a query or a mutation to its end; answers its data. */
  async run(query: string, variables: Data = {}): Promise<Data> {
    const result = await this.result(query, variables);
    if (result.errors) {
      throw new Error(JSON.stringify(result.errors));
    }
    return result.data;
  }

  /** Runs a query or a mutation to its end; answers its only result. */
  result(query: string, variables: Data = {}): Promise<any> {
    return new Promise((resolve, reject) => {
      let result: unknown;
      this.client.subscribe(
        { query, variables },
        { next: (next) => (result = next), error: reject, complete: () => resolve(result) },
      );
    });
  }

  /** Joins a session. */
  async join(sessionId: string, more: Data = {}): Promise<Data> {
    const variables = { sessionId, boardPath: "/kilter/1/10/26_27/40", ...more };
    return (await this.run(JOIN, variables)).joinSession;
  }

  /** Opens both subscriptions. */
  listen(sessionId: string): void {
    this.listenTo("queueUpdates", QUEUE_UPDATES, sessionId, this.queueEvents);
    this.listenTo("sessionUpdates", SESSION_UPDATES, sessionId, this.sessionEvents);
  }

  /** Opens one more subscription to the queue that nobody minds; answers how to end it. */
  listenIdly(sessionId: string): () => void {
    const everything = QUEUE_UPDATES.replace(/name angle/g, "name angle litUpHoldsMap");
    return this.listenTo("queueUpdates", everything, sessionId, []);
  }

  async add(item: unknown, position?: number): Promise<Data> {
    const query = `mutation Add($item: ClimbQueueItemInput!, $position: Int) {
      addQueueItem(item: $item, position: $position) { ${ITEM} } }`;
    return (await this.run(query, { item, position })).addQueueItem;
  }

  async remove(number: number): Promise<boolean> {
    const query = "mutation Remove($uuid: ID!) { removeQueueItem(uuid: $uuid) }";
    return (await this.run(query, { uuid: uuid(number) })).removeQueueItem;
  }

  async reorder(number: number, oldIndex: number, newIndex: number): Promise<boolean> {
    const query = `mutation Reorder($uuid: ID!, $oldIndex: Int!, $newIndex: Int!) {
      reorderQueueItem(uuid: $uuid, oldIndex: $oldIndex, newIndex: $newIndex) }`;
    return (await this.run(query, { uuid: uuid(number), oldIndex, newIndex })).reorderQueueItem;
  }

  async setCurrent(item: unknown, more: Data = {}): Promise<Data | null> {
    const query = `mutation SetCurrent($item: ClimbQueueItemInput, $shouldAddToQueue: Boolean,
      $correlationId: ID) { setCurrentClimb(item: $item, shouldAddToQueue: $shouldAddToQueue,
      correlationId: $correlationId) { ${ITEM} } }`;
    return (await this.run(query, { item, ...more })).setCurrentClimb;
  }

  async mirror(mirrored: boolean): Promise<Data | null> {
    const query = `mutation Mirror($mirrored: Boolean!) {
      mirrorCurrentClimb(mirrored: $mirrored) { ${ITEM} } }`;
    return (await this.run(query, { mirrored })).mirrorCurrentClimb;
  }

  async setQueue(queue: unknown[], currentClimbQueueItem?: unknown): Promise<Data> {
    const query = `mutation SetQueue($queue: [ClimbQueueItemInput!]!,
      $currentClimbQueueItem: ClimbQueueItemInput) { setQueue(queue: $queue,
      currentClimbQueueItem: $currentClimbQueueItem) { sequence stateHash } }`;
    return (await this.run(query, { queue, currentClimbQueueItem })).setQueue;
  }

  /** Waits for an event of the queue with this sequence or a later one; answers it. */
  async reaches(sequence: number): Promise<Data> {
    return await eventually(`event ${sequence} is heard`, () =>
      this.queueEvents.find((event) => event.sequence >= sequence),
    );
  }

  /** Closes its socket for good; whether it still had one does not matter. */
  async dispose(): Promise<void> {
    await Promise.resolve(this.client.dispose()).catch(() => {});
  }

  /** The last code with which a socket closed, once there is one after so many. */
  async closedAfter(count: number): Promise<number> {
    await eventually("a socket closes", () => this.closes.length > count);
    return (this.closes.at(-1) as Closed).code;
  }

  private listenTo(field: string, query: string, sessionId: string, events: Data[]): () => void {
    return this.client.subscribe<Data>(
      { query, variables: { sessionId } },
      {
        next: (next) => events.push(next.data?.[field] ?? next),
        error: (error) => this.ends.push(error),
        complete: () => this.ends.push("complete"),
      },
    );
  }
}

function kindOf(frame: string): string {
  const query = /"query":"(?:mutation|subscription|query) (\w+)/.exec(frame)?.[1];
  return query ?? (/"type":"(\w+)"/.exec(frame)?.[1] as string);
}
