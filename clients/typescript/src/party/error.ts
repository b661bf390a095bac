/** Why something was refused or failed. */

import type { ErrorCode } from "../protocol.gen.js";

/** Codes of this library. */
export type PartyErrorCode =
  /** The socket was lost before the answer came. */
  | "CONNECTION_LOST"
  /** No answer came in time. */
  | "TIMEOUT"
  /** So many edits wait for an answer that no other is taken. */
  | "TOO_MANY_PENDING"
  /** The session is over, for good. */
  | "SESSION_ENDED"
  /** There is no session, or it was left. */
  | "NOT_IN_A_SESSION";

/** Codes that are worth another attempt with the same name. */
const RETRYABLE: ReadonlySet<string> = new Set([
  "RATE_LIMITED",
  "SERVER_BUSY",
  "SERVICE_UNAVAILABLE",
  "INTERNAL_ERROR",
  "CONNECTION_LOST",
]);

/** A refusal or a failure. */
export class PartyError extends Error {
  /** Whether it is certain that nothing was done. */
  readonly outcome: "rejected" | "unknown";
  /** When it is worth trying again, if the server says so. */
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

  /** Whether the same thing may succeed a little later. */
  get isRetryable(): boolean {
    return RETRYABLE.has(this.code);
  }

  /** Whether it says that the session is over. The server has one code for several conflicts. */
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

/** Reads the first of some errors. */
export function errorOf(errors: readonly RawError[]): PartyError {
  const [error] = errors;
  const code = (error?.extensions?.code ?? "INTERNAL_ERROR") as ErrorCode;
  const retryAfterSeconds = error?.extensions?.retry_after_seconds ?? null;
  return new PartyError(code, error?.message ?? "Something went wrong", { retryAfterSeconds });
}
