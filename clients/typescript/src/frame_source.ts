/** A source of frames to send. */
import type { ClientFrame } from "./protocol.gen.js";

/**
 * The time limit for an answer. The server answers every request, so this limit guards against
 * server bugs.
 */
export const REQUEST_TIMEOUT_MS = 20_000;

/** The time of an event that will never happen. */
export const NEVER = Number.POSITIVE_INFINITY;

/** A source of frames to send. Times are those of `performance.now()`. */
export interface FrameSource {
  /** The time at which the next frame is due. */
  dueAt(now: number): number;
  /** Returns the frame to send now. */
  next(now: number): ClientFrame | undefined;
}
