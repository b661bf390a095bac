/** An item of the queue: a climb, and who added it. Names are those of the GraphQL schema. */

/** A climb, with all fields needed to show it. */
export interface Climb {
  /** The climb's id in its catalogue. */
  readonly uuid: string;
  /** The layout of the board; clients cannot set it. */
  readonly layoutId?: number | null;
  readonly setter_username: string;
  readonly name: string;
  readonly description: string;
  /** The holds, in the notation of the board. */
  readonly frames: string;
  /** The angle of the board in degrees. */
  readonly angle: number;
  readonly ascensionist_count: number;
  readonly difficulty: string;
  readonly quality_average: string;
  readonly stars: number;
  readonly difficulty_error: string;
  /** The lit holds, in any form that the board understands. */
  readonly litUpHoldsMap: unknown;
  readonly mirrored?: boolean | null;
  readonly benchmark_difficulty?: string | null;
  readonly userAscents?: number | null;
  readonly userAttempts?: number | null;
  /** The kind of board; clients cannot set it. */
  readonly boardType?: string | null;
}

/** The user who added an item, for display. */
export interface QueueItemUser {
  readonly id: string;
  readonly username: string;
  readonly avatarUrl?: string | null;
}

/** A climb in the queue. The same climb may be queued twice, under two item uuids. */
export interface ClimbQueueItem {
  /** The item's own id, a UUID that the client makes. */
  readonly uuid: string;
  readonly climb: Climb;
  readonly addedBy?: string | null;
  readonly addedByUser?: QueueItemUser | null;
  readonly tickedBy?: readonly string[] | null;
  /** Whether the client suggested the item automatically. */
  readonly suggested?: boolean | null;
}

const CLIMB_FIELDS = [
  "uuid",
  "setter_username",
  "name",
  "description",
  "frames",
  "angle",
  "ascensionist_count",
  "difficulty",
  "quality_average",
  "stars",
  "difficulty_error",
  "litUpHoldsMap",
  "mirrored",
  "benchmark_difficulty",
  "userAscents",
  "userAttempts",
] as const;

const USER_FIELDS = ["id", "username", "avatarUrl"] as const;

/**
 * Returns a frozen copy of an item with only the fields that clients may send. The item may come
 * from the server, or have fields of the application.
 */
export function itemOf(given: ClimbQueueItem): ClimbQueueItem {
  const item = {
    uuid: given.uuid,
    climb: picked(given.climb, CLIMB_FIELDS),
    ...picked(given, ["addedBy", "tickedBy", "suggested"] as const),
    ...(given.addedByUser ? { addedByUser: picked(given.addedByUser, USER_FIELDS) } : {}),
  };
  return frozen(JSON.parse(JSON.stringify(item)) as ClimbQueueItem);
}

/** The same item, mirrored or not. */
export function mirroredItem(item: ClimbQueueItem, mirrored: boolean): ClimbQueueItem {
  return frozen({ ...item, climb: { ...item.climb, mirrored } });
}

/** Freezes a JSON value at every depth, so that it can be shared. */
export function frozen<T>(value: T): T {
  if (typeof value === "object" && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value;
}

function picked<T extends object, K extends keyof T>(from: T, names: readonly K[]): Pick<T, K> {
  const present = names.filter((name) => from[name] !== undefined && from[name] !== null);
  return Object.fromEntries(present.map((name) => [name, from[name]])) as Pick<T, K>;
}
