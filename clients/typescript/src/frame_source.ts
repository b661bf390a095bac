/** Something that has frames to send from time to time. */
import type { ClientFrame } from "./protocol.gen.js";

/**
 * How long an answer may take. Every request is answered, so this is for servers that break their
 * word.
 */
export const REQUEST_TIMEOUT_MS = 20_000;

/** The moment of what will not happen. */
export const NEVER = Number.POSITIVE_INFINITY;

/** Something that has frames to send. Moments are those of `performance.now()`. */
export interface FrameSource {
  /** When there is a frame to send. */
  dueAt(now: number): number;
  /** The frame to send now. */
  next(now: number): ClientFrame | undefined;
}
