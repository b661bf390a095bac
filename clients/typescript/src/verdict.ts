/** What an error frame means for the request that it answers. */
import type { BackOff } from "./back_off.js";
import type { ErrorFrame } from "./protocol.gen.js";

/** What to do with a refused request. */
export type Verdict =
  /** The refusal is definite. */
  | { kind: "final" }
  /** Try it again after the pause; others may go on. */
  | { kind: "pause_one"; pauseMs: number }
  /**
   * Try it again after the pause, and hold everything of its kind until then: the whole connection
   * was meant.
   */
  | { kind: "pause_all"; pauseMs: number };

/** Judges an error. One that leaves the outcome open is never definite, whatever else it says. */
export function judge(error: ErrorFrame, backOff: BackOff): Verdict {
  if (!error.retryable && error.details?.outcome !== "unknown") return { kind: "final" };
  const pauseMs = backOff.afterRefusal(error.retry_after_seconds);
  switch (error.code) {
    case "RATE_LIMITED":
    case "SERVER_BUSY":
    case "UNAUTHORIZED":
      return { kind: "pause_all", pauseMs };
    default:
      return { kind: "pause_one", pauseMs };
  }
}
