/** Edits of the queue, applied locally before the server has answered. */

import type { QueueContents } from "./events.js";
import { contentHash } from "./hash.js";
import { type ClimbQueueItem } from "./item.js";
import { indexOf, withItem, withMirrored, withoutItem } from "./queue.js";

/** A change of the queue, named after its mutation. */
export type Edit =
  | {
      readonly name: "addQueueItem";
      readonly item: ClimbQueueItem;
      /** The position; null for the end. */
      readonly position: number | null;
    }
  | { readonly name: "removeQueueItem"; readonly uuid: string }
  | {
      readonly name: "reorderQueueItem";
      readonly uuid: string;
      /** The position where the member saw the item, as a hint. */
      readonly oldIndex: number;
      readonly newIndex: number;
    }
  | {
      readonly name: "setCurrentClimb";
      readonly item: ClimbQueueItem | null;
      readonly shouldAddToQueue: boolean;
    }
  | { readonly name: "mirrorCurrentClimb"; readonly mirrored: boolean }
  | { readonly name: "replaceQueueItem"; readonly uuid: string; readonly item: ClimbQueueItem }
  | {
      readonly name: "setQueue";
      readonly queue: readonly ClimbQueueItem[];
      readonly current: ClimbQueueItem | null;
    };

/**
 * Applies an edit by the server's rules. Returns the same object if the edit changes nothing,
 * because it is already applied or cannot be applied.
 */
export function contentsWith(contents: QueueContents, edit: Edit): QueueContents {
  const { queue, current } = contents;
  switch (edit.name) {
    case "addQueueItem":
      return added(contents, edit.item, edit.position);
    case "removeQueueItem": {
      const index = indexOf(queue, edit.uuid);
      const kept = current?.uuid === edit.uuid ? null : current;
      return index < 0 ? contents : { queue: withoutItem(queue, index), current: kept };
    }
    case "reorderQueueItem": {
      const index = indexOf(queue, edit.uuid);
      const item = queue[index];
      if (item === undefined || edit.newIndex >= queue.length || index === edit.newIndex) {
        return contents;
      }
      return { queue: withItem(withoutItem(queue, index), edit.newIndex, item), current };
    }
    case "setCurrentClimb": {
      const { item } = edit;
      const base = item && edit.shouldAddToQueue ? added(contents, item, null) : contents;
      return isSame(base.current, item) ? base : { queue: base.queue, current: item };
    }
    case "mirrorCurrentClimb":
      return mirrored(contents, edit.mirrored);
    case "replaceQueueItem":
      return replaced(contents, edit.uuid, edit.item);
    case "setQueue":
      return isSame(current, edit.current) && areSame(queue, edit.queue)
        ? contents
        : { queue: edit.queue, current: edit.current };
  }
}

function added(
  contents: QueueContents,
  item: ClimbQueueItem,
  position: number | null,
): QueueContents {
  const { queue, current } = contents;
  if (indexOf(queue, item.uuid) >= 0) {
    return contents;
  }
  const index = Math.min(position ?? queue.length, queue.length);
  return { queue: withItem(queue, index, item), current };
}

function mirrored(contents: QueueContents, isMirrored: boolean): QueueContents {
  const { queue, current } = contents;
  const isMeant = (item: ClimbQueueItem) => item.uuid === current?.uuid;
  const differs = (item: ClimbQueueItem) => (item.climb.mirrored ?? false) !== isMirrored;
  const isQueuedOtherwise = queue.some((item) => isMeant(item) && differs(item));
  const isChange = current !== null && (differs(current) || isQueuedOtherwise);
  return isChange ? withMirrored(contents, isMirrored) : contents;
}

function replaced(contents: QueueContents, uuid: string, item: ClimbQueueItem): QueueContents {
  const { queue, current } = contents;
  const index = indexOf(queue, uuid);
  const taken = indexOf(queue, item.uuid);
  const present = queue[index];
  if (present === undefined || (taken >= 0 && taken !== index)) {
    return contents;
  }
  const next = current?.uuid === uuid ? item : current;
  if (isSame(present, item) && isSame(current, next)) {
    return contents;
  }
  return { queue: withItem(withoutItem(queue, index), index, item), current: next };
}

function isSame(one: ClimbQueueItem | null, other: ClimbQueueItem | null): boolean {
  if (one === null || other === null) {
    return one === other;
  }
  return contentHash(one) === contentHash(other);
}

function areSame(one: readonly ClimbQueueItem[], other: readonly ClimbQueueItem[]): boolean {
  const isSameAt = (item: ClimbQueueItem, index: number) => isSame(item, other[index] ?? null);
  return one.length === other.length && one.every(isSameAt);
}
