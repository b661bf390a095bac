/**
 * The hash by which two copies of a queue are compared.
 *
 * The *state hash* sees which items are there and which is current. The *order hash* sees
 * everything that a member can see: the items with their content, in their order, and the current
 * one.
 */

import { canonicalJson } from "./canonical.js";
import type { ClimbQueueItem } from "./item.js";

/** The state hash: eight hex digits. */
export function stateHash(
  queue: readonly ClimbQueueItem[],
  current: ClimbQueueItem | null,
): string {
  const uuids = queue.map((item) => item.uuid).sort();
  return fnv32(`${uuids.join(",")}|${current?.uuid || "null"}`);
}

/** The order hash: sixteen hex digits. */
export function orderHash(
  queue: readonly ClimbQueueItem[],
  current: ClimbQueueItem | null,
): string {
  const items = queue.map(contentHash).join(",");
  return fnv64(`${items}|${current ? contentHash(current) : "null"}`);
}

/** The hashes of items, which are frozen and so hashed once. */
const known = new WeakMap<ClimbQueueItem, string>();

/** The hash of an item's content: sixteen hex digits. */
export function contentHash(item: ClimbQueueItem): string {
  let hash = known.get(item);
  if (hash === undefined) {
    hash = fnv64(canonicalJson(item));
    if (Object.isFrozen(item)) {
      known.set(item, hash);
    }
  }
  return hash;
}

/** FNV-1a of 32 bits over UTF-16 code units, each xored whole. */
export function fnv32(text: string): string {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hex(hash);
}

/**
 * FNV-1a of 64 bits over UTF-16 code units. The prime is 2^40 + 0x1b3, so that two halves of 32
 * bits are multiplied without leaving what a number holds exactly.
 */
export function fnv64(text: string): string {
  let high = 0xcbf29ce4;
  let low = 0x84222325;
  for (let index = 0; index < text.length; index += 1) {
    low = (low ^ text.charCodeAt(index)) >>> 0;
    const product = low * 0x1b3;
    high = (high * 0x1b3 + low * 256 + Math.floor(product / 0x1_0000_0000)) % 0x1_0000_0000;
    low = product % 0x1_0000_0000;
  }
  return hex(high) + hex(low);
}

function hex(number: number): string {
  return (number >>> 0).toString(16).padStart(8, "0");
}
