/** What the two streams of a session say, and how it is read from the wire. */

import { type ClimbQueueItem, frozen } from "./item.js";

/** The items, and which of them is being climbed. */
export interface QueueContents {
  readonly queue: readonly ClimbQueueItem[];
  /** It may be an item that is not in the queue. */
  readonly current: ClimbQueueItem | null;
}

/** A number among the queue events of a session. Those of different incarnations do not compare. */
export interface Position {
  readonly sequence: number;
  /** How often the session was restored after a loss. */
  readonly incarnation: number;
}

/** What the state after an event must be. */
export interface Hashes {
  readonly stateHash: string | null;
  readonly orderHash: string | null;
}

/** The whole queue, in place of everything that was heard before. */
export interface FullSync extends Position, Hashes {
  readonly type: "FullSync";
  readonly contents: QueueContents;
  /** Whether items were missing that the server should have sent. */
  readonly isDamaged: boolean;
}

/** One change of the queue. */
export type QueueDelta = Position & Hashes & Cause & QueueChange;

/** Who caused a change, and what they call it. */
export interface Cause {
  readonly clientId: string | null;
  readonly correlationId: string | null;
}

/** What one change does. */
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
  /** Who it is in this session, which is not its account. */
  readonly id: string;
  readonly username: string;
  readonly isLeader: boolean;
  readonly avatarUrl: string | null;
}

/** An event of the session. `sequence` is null for what was so before. */
export type SessionEvent = { readonly sequence: number | null } & (
  | { readonly type: "UserJoined"; readonly user: SessionUser }
  | { readonly type: "UserLeft"; readonly userId: string }
  | { readonly type: "LeaderChanged"; readonly leaderId: string }
  | { readonly type: "SessionEnded"; readonly reason: string; readonly newPath: string | null }
);

/** A queue state as the wire writes it. */
export interface RawQueueState extends Position, Partial<Hashes> {
  readonly queue: readonly (ClimbQueueItem | null)[];
  readonly currentClimbQueueItem?: ClimbQueueItem | null;
}

/** An event as the wire writes it. `item` has two names, as it is nullable in one type only. */
export type RawQueueEvent = Record<string, unknown> & { readonly __typename: string };

/**
 * Reads an event of the queue. The stream and the replay write it alike, so this is the only place
 * that knows how. Answers null for a type that this version does not know.
 */
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

/** Reads a whole state. Items that are not there are left out, and said to be missing. */
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

/** Reads an event of the session. Answers null for a type that this version does not know. */
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

/** A member, with nothing but what is known of members. */
export function userOf(raw: SessionUser): SessionUser {
  const { id, username, isLeader, avatarUrl } = raw;
  return Object.freeze({ id, username, isLeader, avatarUrl: avatarUrl ?? null });
}

function itemIn(value: unknown): ClimbQueueItem | null {
  const item = value as ClimbQueueItem | null | undefined;
  return item?.uuid ? frozen(item) : null;
}
