/** What an application sees of a party. */

import type { PartyError } from "./error.js";
import type { SessionUser } from "./events.js";
import type { ClimbQueueItem } from "./item.js";

/**
 * Where a party is: in no session; on its way into one; in one; on its way back into one; in one
 * that is over; out of one that was left; refused.
 */
export type PartyStatus =
  | "idle"
  | "joining"
  | "live"
  | "reconnecting"
  | "ended"
  | "left"
  | "failed";

/** Everything at one moment. It never changes; when something does, there is another one. */
export interface PartyState {
  readonly status: PartyStatus;
  readonly sessionId: string | null;
  /** The session's name. */
  readonly name: string | null;
  /** The session's board, which is that of whoever joined first. */
  readonly boardPath: string | null;
  /** Who this client is in the session. */
  readonly clientId: string | null;
  readonly isLeader: boolean;
  readonly leaderId: string | null;
  /** The members, those first who have been here longest. */
  readonly members: readonly SessionUser[];
  /** The items as the screen shows them: with the edits that are not confirmed. */
  readonly queue: readonly ClimbQueueItem[];
  /** What is being climbed, as the screen shows it. */
  readonly current: ClimbQueueItem | null;
  /** The number of the last confirmed event. */
  readonly sequence: number | null;
  readonly incarnation: number | null;
  /** Edits that are not confirmed. */
  readonly pendingEdits: number;
  /** Why it failed. */
  readonly error: PartyError | null;
  /** Why the session ended, and where to go now. */
  readonly ended: { readonly reason: string; readonly newPath: string | null } | null;
}

/** In no session. */
export const IDLE: PartyState = Object.freeze({
  status: "idle",
  sessionId: null,
  name: null,
  boardPath: null,
  clientId: null,
  isLeader: false,
  leaderId: null,
  members: Object.freeze([]),
  queue: Object.freeze([]),
  current: null,
  sequence: null,
  incarnation: null,
  pendingEdits: 0,
  error: null,
  ended: null,
});
