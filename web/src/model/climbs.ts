/** Climbs to fill a queue with, invented for this page. */
import type { ClimbQueueItem } from "heartline/party";
import { uuid } from "./uuid.js";

/** The board that this page's parties climb on. */
export const BOARD_PATH = "/kilter/original/12x12-square/screw_bolt/40";

const SUGGESTIONS: readonly (readonly [name: string, difficulty: string])[] = [
  ["Slow morning", "5+/V2"],
  ["Paper moon", "6a/V3"],
  ["Left of centre", "6a+/V3"],
  ["Quiet engine", "6b/V4"],
  ["Salt and iron", "6b+/V4"],
  ["The long reply", "6c/V5"],
  ["Night ferry", "6c+/V5"],
  ["Borrowed light", "7a/V6"],
  ["No second knock", "7a+/V7"],
  ["Last tram home", "7b/V8"],
];

/** The grades that a new climb can have. */
export const DIFFICULTIES: readonly string[] = SUGGESTIONS.map(([, difficulty]) => difficulty);

/** A climb that is not in the queue yet, while there is one. */
export function suggestion(queue: readonly ClimbQueueItem[], user_id: string): ClimbQueueItem {
  const isThere = (name: string) => queue.some((item) => item.climb.name === name);
  const found = SUGGESTIONS.find(([name]) => !isThere(name)) ?? SUGGESTIONS[0];
  const [name, difficulty] = found ?? ["Climb", "6a/V3"];
  return newItem(name, difficulty, user_id);
}

/** The initial queue. */
export function firstQueue(user_id: string): ClimbQueueItem[] {
  return SUGGESTIONS.slice(0, 3).map(([name, difficulty]) => newItem(name, difficulty, user_id));
}

/** A new item of the queue. */
export function newItem(name: string, difficulty: string, user_id: string): ClimbQueueItem {
  const climb = {
    uuid: uuid(),
    setter_username: user_id,
    name,
    description: "",
    frames: "p1r12p24r13p38r14",
    angle: 40,
    ascensionist_count: 0,
    difficulty,
    quality_average: "3",
    stars: 3,
    difficulty_error: "0",
    litUpHoldsMap: {},
    mirrored: false,
  };
  return { uuid: uuid(), climb, addedBy: user_id };
}
