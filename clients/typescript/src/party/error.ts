/** The errors of party sessions. */

import type { ErrorCode } from "../protocol.gen.js";

/** Codes of this library. */
export type PartyErrorCode =
  /** The socket was lost before the answer arrived. */
  | "CONNECTION_LOST"
  /** The server did not answer in time. */
  | "TIMEOUT"
  /** Too many edits are pending; this one was not accepted. */
  | "TOO_MANY_PENDING"
  /** The session has ended. */
  | "SESSION_ENDED"
  /** The client is in no session, or has left it. */
  | "NOT_IN_A_SESSION";

/** Codes after which a retry with the same correlation id can succeed. */
const RETRYABLE: ReadonlySet<string> = new Set([
  "RATE_LIMITED",
  "SERVER_BUSY",
  "SERVICE_UNAVAILABLE",
  "INTERNAL_ERROR",
  "CONNECTION_LOST",
]);

/** An error with a code and an outcome. */
export class PartyError extends Error {
  /** Whether the change was certainly not made. */
  readonly outcome: "rejected" | "unknown";
  /** The delay after which to retry, if the server gave one. */
  readonly retryAfterSeconds: number | null;

  constructor(
    readonly code: ErrorCode | PartyErrorCode,
    message: string,
    more: { outcome?: "rejected" | "unknown"; retryAfterSeconds?: number | null } = {},
  ) {
    super(message);
    this.name = "PartyError";
    this.outcome = more.outcome ?? "rejected";
    this.retryAfterSeconds = more.retryAfterSeconds ?? null;
  }

  /** Whether a retry can succeed. */
  get isRetryable(): boolean {
    return RETRYABLE.has(this.code);
  }

  /** Whether the session has ended. The server uses one code for several conflicts. */
  get saysEnded(): boolean {
    const isConflict = this.code === "CONFLICT" && /has ended/.test(this.message);
    return isConflict || this.code === "SESSION_ENDED";
  }
}

/** An error as GraphQL writes it. */
export interface RawError {
  readonly message: string;
  readonly extensions?: { readonly code?: string; readonly retry_after_seconds?: number };
}

/** Reads the first of several errors. */
export function errorOf(errors: readonly RawError[]): PartyError {
  const [error] = errors;
  const code = (error?.extensions?.code ?? "INTERNAL_ERROR") as ErrorCode;
  const retryAfterSeconds = error?.extensions?.retry_after_seconds ?? null;
  return new PartyError(code, error?.message ?? "Something went wrong", { retryAfterSeconds });
}
