/** The events of the two streams of a session, and how they are read from the wire. */

import { type ClimbQueueItem, frozen } from "./item.js";

/** The items, and the current one. */
export interface QueueContents {
  readonly queue: readonly ClimbQueueItem[];
  /** May be an item that is not in the queue. */
  readonly current: ClimbQueueItem | null;
}

/** The sequence of a queue event. Sequences of different incarnations cannot be compared. */
export interface Position {
  readonly sequence: number;
  /** How often the session was restored after a loss. */
  readonly incarnation: number;
}

/** The hashes of the state after an event. */
export interface Hashes {
  readonly stateHash: string | null;
  readonly orderHash: string | null;
}

/** The whole queue, which replaces all earlier state. */
export interface FullSync extends Position, Hashes {
  readonly type: "FullSync";
  readonly contents: QueueContents;
  /** Whether the server left out items that it should have sent. */
  readonly isDamaged: boolean;
}

/** One change of the queue. */
export type QueueDelta = Position & Hashes & Cause & QueueChange;

/** The member who caused a change, and the correlation id. */
export interface Cause {
  readonly clientId: string | null;
  readonly correlationId: string | null;
}

/** The effect of one change. */
export type QueueChange =
  | {
      readonly type: "QueueItemAdded";
      readonly item: ClimbQueueItem | null;
      readonly position: number | null;
    }
  | { readonly type: "QueueItemRemoved"; readonly uuid: string }
  | {
      readonly type: "QueueReordered";
      readonly uuid: string;
      readonly oldIndex: number;
      readonly newIndex: number;
    }
  | { readonly type: "CurrentClimbChanged"; readonly item: ClimbQueueItem | null }
  | { readonly type: "ClimbMirrored"; readonly mirrored: boolean };

/** An event of the queue. */
export type QueueEvent = FullSync | QueueDelta;

/** A member as others see it. */
export interface SessionUser {
  /** The member's id in this session, which is not the account's id. */
  readonly id: string;
  readonly username: string;
  readonly isLeader: boolean;
  readonly avatarUrl: string | null;
}

/** An event of the session. `sequence` is null for the initial state. */
export type SessionEvent = { readonly sequence: number | null } & (
  | { readonly type: "UserJoined"; readonly user: SessionUser }
  | { readonly type: "UserLeft"; readonly userId: string }
  | { readonly type: "LeaderChanged"; readonly leaderId: string }
  | { readonly type: "SessionEnded"; readonly reason: string; readonly newPath: string | null }
);

/** A queue state as on the wire. */
export interface RawQueueState extends Position, Partial<Hashes> {
  readonly queue: readonly (ClimbQueueItem | null)[];
  readonly currentClimbQueueItem?: ClimbQueueItem | null;
}

/** An event as on the wire. `item` has two names, because it is nullable in one type only. */
export type RawQueueEvent = Record<string, unknown> & { readonly __typename: string };

/** Reads an event of the queue, from the stream or a replay. Returns null for an unknown type. */
export function queueEventOf(raw: RawQueueEvent): QueueEvent | null {
  const type = raw.__typename;
  if (type === "FullSync") {
    return fullSyncOf(raw.state as RawQueueState);
  }
  const stamp = {
    sequence: raw.sequence as number,
    incarnation: raw.incarnation as number,
    stateHash: (raw.stateHash as string | null | undefined) ?? null,
    orderHash: (raw.orderHash as string | null | undefined) ?? null,
    clientId: (raw.clientId as string | null | undefined) ?? null,
    correlationId: (raw.correlationId as string | null | undefined) ?? null,
  };
  switch (type) {
    case "QueueItemAdded": {
      const position = (raw.position as number | null | undefined) ?? null;
      return { ...stamp, type, item: itemIn(raw.addedItem), position };
    }
    case "QueueItemRemoved":
      return { ...stamp, type, uuid: raw.uuid as string };
    case "QueueReordered": {
      const { uuid, oldIndex, newIndex } = raw as unknown as {
        uuid: string;
        oldIndex: number;
        newIndex: number;
      };
      return { ...stamp, type, uuid, oldIndex, newIndex };
    }
    case "CurrentClimbChanged":
      return { ...stamp, type, item: itemIn(raw.currentItem) };
    case "ClimbMirrored":
      return { ...stamp, type, mirrored: raw.mirrored as boolean };
    default:
      return null;
  }
}

/** Reads a whole state. Null items are left out and counted as missing. */
export function fullSyncOf(state: RawQueueState): FullSync {
  const queue = state.queue.map(itemIn).filter((item) => item !== null);
  return {
    type: "FullSync",
    sequence: state.sequence,
    incarnation: state.incarnation,
    stateHash: state.stateHash ?? null,
    orderHash: state.orderHash ?? null,
    contents: { queue, current: itemIn(state.currentClimbQueueItem) },
    isDamaged: queue.length < state.queue.length,
  };
}

/** Reads an event of the session. Returns null for an unknown type. */
export function sessionEventOf(raw: Record<string, unknown>): SessionEvent | null {
  const sequence = (raw.sequence as number | null | undefined) ?? null;
  switch (raw.__typename) {
    case "UserJoined":
      return { sequence, type: "UserJoined", user: userOf(raw.user as SessionUser) };
    case "UserLeft":
      return { sequence, type: "UserLeft", userId: raw.userId as string };
    case "LeaderChanged":
      return { sequence, type: "LeaderChanged", leaderId: raw.leaderId as string };
    case "SessionEnded": {
      const newPath = (raw.newPath as string | null | undefined) ?? null;
      return { sequence, type: "SessionEnded", reason: raw.reason as string, newPath };
    }
    default:
      return null;
  }
}

/** Reads a member, without unknown fields. */
export function userOf(raw: SessionUser): SessionUser {
  const { id, username, isLeader, avatarUrl } = raw;
  return Object.freeze({ id, username, isLeader, avatarUrl: avatarUrl ?? null });
}

function itemIn(value: unknown): ClimbQueueItem | null {
  const item = value as ClimbQueueItem | null | undefined;
  return item?.uuid ? frozen(item) : null;
}
