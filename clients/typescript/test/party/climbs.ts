/** Climbs to queue. */
import type { ClimbQueueItem } from "../../src/party/item.js";

/** The uuid of the item of a number. */
export function uuid(number: number): string {
  return `11111111-1111-4111-8111-${String(number).padStart(12, "0")}`;
}

/** The item of a number. A description makes it as large as it is to be. */
export function item(number: number, description = ""): ClimbQueueItem {
  return {
    uuid: uuid(number),
    climb: {
      uuid: `climb-${number}`,
      setter_username: "setter",
      name: `Climb ${number}`,
      description,
      frames: "p1r1",
      angle: 40,
      ascensionist_count: 1,
      difficulty: "6a/V3",
      quality_average: "3",
      stars: 2.5,
      difficulty_error: "0.1",
      litUpHoldsMap: { "12": { state: "HAND", size: 1.5 }, "2": [null, 0.1] },
      mirrored: false,
    },
  };
}

/** Holds that make an item so many bytes large. */
export function bulky(number: number, bytes: number): ClimbQueueItem {
  const plain = item(number);
  return { ...plain, climb: { ...plain.climb, litUpHoldsMap: { bulk: "x".repeat(bytes) } } };
}
