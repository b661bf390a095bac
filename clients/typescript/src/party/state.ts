/** The state of a party, for the application. */

import type { PartyError } from "./error.js";
import type { SessionUser } from "./events.js";
import type { ClimbQueueItem } from "./item.js";

/**
 * The status of a party: in no session; joining; in a session; reconnecting; the session has ended;
 * left; failed.
 */
export type PartyStatus =
  | "idle"
  | "joining"
  | "live"
  | "reconnecting"
  | "ended"
  | "left"
  | "failed";

/** The whole state at one moment. It is frozen; every change makes a new one. */
export interface PartyState {
  readonly status: PartyStatus;
  readonly sessionId: string | null;
  /** The session's name. */
  readonly name: string | null;
  /** The session's board, set by the first member. */
  readonly boardPath: string | null;
  /** The id of this client in the session. */
  readonly clientId: string | null;
  readonly isLeader: boolean;
  readonly leaderId: string | null;
  /** The members, in the order in which they joined. */
  readonly members: readonly SessionUser[];
  /** The visible items: confirmed, with the pending edits applied. */
  readonly queue: readonly ClimbQueueItem[];
  /** The visible current climb. */
  readonly current: ClimbQueueItem | null;
  /** The sequence of the last confirmed event. */
  readonly sequence: number | null;
  readonly incarnation: number | null;
  /** The number of pending edits. */
  readonly pendingEdits: number;
  /** Why joining failed. */
  readonly error: PartyError | null;
  /** Why the session ended, and the path to go to. */
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
