/** Everything that can be refused, as errors with a code. */
import type { ErrorCode, ErrorDetails, ErrorFrame } from "./protocol.gen.js";

/** What the client itself refuses, without asking a server. */
export type ClientErrorCode =
  /** As many messages wait for their answer as may. */
  | "OUTBOX_FULL"
  /** The content is empty or over its limit. */
  | "INVALID_CONTENT"
  /** The content type is empty or over its limit. */
  | "INVALID_CONTENT_TYPE"
  /** The `client_message_id` has another form than the server takes. */
  | "INVALID_CLIENT_MESSAGE_ID"
  /** A message with this `client_message_id` waits in this chat already. */
  | "ALREADY_WAITING"
  /** More users than one connection may watch; none of them is. */
  | "TOO_MANY_USERS"
  /** The client was closed. What waits in a lasting outbox stays there. */
  | "CLOSED"
  /** The client has stopped; its `stop_reason` says why. */
  | "STOPPED"
  /** No answer came in time. */
  | "TIMEOUT"
  /** The server cannot be reached. */
  | "UNREACHABLE"
  /** There is no token now. */
  | "NO_TOKEN"
  /** There will be no token any more: thrown by a token provider, it stops the client. */
  | "TOKEN_ENDED";

/** Something that did not happen. */
export class HeartlineError extends Error {
  override readonly name: string = "HeartlineError";

  constructor(
    readonly code: ErrorCode | ClientErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The client was closed. */
export function closed(): HeartlineError {
  return new HeartlineError("CLOSED", "the client is closed");
}

/** A server's refusal. */
export class RefusedError extends HeartlineError {
  override readonly name = "RefusedError";
  declare readonly code: ErrorCode;
  /** Whether the same request may succeed later. */
  declare readonly retryable: boolean;
  /** When to try again. */
  declare readonly retry_after_seconds: number | undefined;
  /** More about it. */
  declare readonly details: ErrorDetails;
  /** The HTTP status, if it was refused over REST. */
  declare readonly status: number | undefined;
  /** Names the request in the server's log, if it was refused over REST. */
  declare readonly request_id: string | undefined;

  constructor(error: Omit<ErrorFrame, "request_id"> & { request_id?: string }, status?: number) {
    super(error.code, error.message);
    this.retryable = error.retryable;
    this.retry_after_seconds = error.retry_after_seconds;
    this.details = error.details ?? {};
    this.status = status;
    this.request_id = error.request_id;
  }
}
