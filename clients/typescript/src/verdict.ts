/** The meaning of an error frame for its request. */
import type { BackOff } from "./back_off.js";
import type { ErrorFrame } from "./protocol.gen.js";

/** The next step for a rejected request. */
export type Verdict =
  /** The rejection is definite. */
  | { kind: "final" }
  /** Retry after the delay; other requests continue. */
  | { kind: "pause_one"; pauseMs: number }
  /**
   * Retry after the delay, and hold all requests of this kind until then: the error concerns the
   * whole connection.
   */
  | { kind: "pause_all"; pauseMs: number };

/** Classifies an error. An error with an unknown outcome is never definite. */
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
