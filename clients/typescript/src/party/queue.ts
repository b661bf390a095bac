/**
 * A confirmed queue, and the transition from one queue to the next by an event. Everything is pure.
 */

import type {
  FullSync,
  Hashes,
  Position,
  QueueChange,
  QueueContents,
  QueueDelta,
} from "./events.js";
import { orderHash, stateHash } from "./hash.js";
import { type ClimbQueueItem, mirroredItem } from "./item.js";

/** The server's queue at one sequence. */
export interface ConfirmedQueue extends Position {
  readonly contents: QueueContents;
  /** The hashes from the server. */
  readonly hashes: Hashes;
}

/** A queue without items. */
export const EMPTY: QueueContents = Object.freeze({ queue: Object.freeze([]), current: null });

/** The queue of a whole state. */
export function queueOf(sync: FullSync): ConfirmedQueue {
  const { sequence, incarnation, stateHash, orderHash } = sync;
  return { sequence, incarnation, contents: sync.contents, hashes: { stateHash, orderHash } };
}

/**
 * The queue after an event; null if the event does not follow from this queue, because events are
 * missing or wrong.
 */
export function queueAfter(queue: ConfirmedQueue, event: QueueDelta): ConfirmedQueue | null {
  const contents = contentsAfter(queue.contents, event);
  if (contents === null) {
    return null;
  }
  const { sequence, incarnation, stateHash, orderHash } = event;
  return { sequence, incarnation, contents, hashes: { stateHash, orderHash } };
}

/** Whether a queue matches the server's hashes. A hash that is left out is not compared. */
export function isVerified(queue: ConfirmedQueue): boolean {
  const { contents, hashes } = queue;
  const agrees = (said: string | null, hash: typeof stateHash) =>
    said === null || said === hash(contents.queue, contents.current);
  return agrees(hashes.stateHash, stateHash) && agrees(hashes.orderHash, orderHash);
}

/** The index of an item; -1 if it is not in the queue. */
export function indexOf(queue: readonly ClimbQueueItem[], uuid: string): number {
  return queue.findIndex((item) => item.uuid === uuid);
}

/** The items with one inserted at an index. */
export function withItem(
  queue: readonly ClimbQueueItem[],
  index: number,
  item: ClimbQueueItem,
): readonly ClimbQueueItem[] {
  return Object.freeze([...queue.slice(0, index), item, ...queue.slice(index)]);
}

/** The items without the one at an index. */
export function withoutItem(
  queue: readonly ClimbQueueItem[],
  index: number,
): readonly ClimbQueueItem[] {
  return Object.freeze([...queue.slice(0, index), ...queue.slice(index + 1)]);
}

/** The contents with the current climb, and the queued item with its uuid, mirrored or not. */
export function withMirrored(contents: QueueContents, mirrored: boolean): QueueContents {
  const { queue, current } = contents;
  if (current === null) {
    return contents;
  }
  const mirror = (item: ClimbQueueItem) =>
    item.uuid === current.uuid ? mirroredItem(item, mirrored) : item;
  return {
    queue: Object.freeze(queue.map(mirror)),
    current: mirroredItem(current, mirrored),
  };
}

function contentsAfter(contents: QueueContents, change: QueueChange): QueueContents | null {
  const { queue, current } = contents;
  switch (change.type) {
    case "QueueItemAdded": {
      const position = change.position ?? queue.length;
      const { item } = change;
      if (item === null || position > queue.length || indexOf(queue, item.uuid) >= 0) {
        return null;
      }
      return { queue: withItem(queue, position, item), current };
    }
    case "QueueItemRemoved": {
      const index = indexOf(queue, change.uuid);
      // Removing the current item also clears the current climb.
      const kept = current?.uuid === change.uuid ? null : current;
      return index < 0 ? null : { queue: withoutItem(queue, index), current: kept };
    }
    case "QueueReordered": {
      const item = queue[change.oldIndex];
      if (item?.uuid !== change.uuid || change.newIndex >= queue.length) {
        return null;
      }
      const others = withoutItem(queue, change.oldIndex);
      return { queue: withItem(others, change.newIndex, item), current };
    }
    case "CurrentClimbChanged":
      return { queue, current: change.item };
    case "ClimbMirrored":
      return current === null ? null : withMirrored(contents, change.mirrored);
  }
}
