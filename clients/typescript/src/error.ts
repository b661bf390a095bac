/** The errors of the library, each with a code. */
import type { ErrorCode, ErrorDetails, ErrorFrame } from "./protocol.gen.js";

/** Errors that the client raises without asking a server. */
export type ClientErrorCode =
  /** The outbox is full. */
  | "OUTBOX_FULL"
  /** The content is empty or too long. */
  | "INVALID_CONTENT"
  /** The content type is empty or too long. */
  | "INVALID_CONTENT_TYPE"
  /** The `client_message_id` has a form that the server does not accept. */
  | "INVALID_CLIENT_MESSAGE_ID"
  /** A message with this `client_message_id` is already pending in this chat. */
  | "ALREADY_WAITING"
  /** More users than one connection may observe; none of them was added. */
  | "TOO_MANY_USERS"
  /** The client was closed. A persistent outbox keeps its pending messages. */
  | "CLOSED"
  /** The client has stopped; see `stop_reason`. */
  | "STOPPED"
  /** The server did not answer in time. */
  | "TIMEOUT"
  /** The server cannot be reached. */
  | "UNREACHABLE"
  /** The token provider returned no valid token. */
  | "NO_TOKEN"
  /** Thrown by a token provider to stop the client: there will be no more tokens. */
  | "TOKEN_ENDED";

/** An error with a code. */
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

/** The error for a closed client. */
export function closed(): HeartlineError {
  return new HeartlineError("CLOSED", "the client is closed");
}

/** An error that the server returned. */
export class RefusedError extends HeartlineError {
  override readonly name = "RefusedError";
  declare readonly code: ErrorCode;
  /** Whether the same request may succeed later. */
  declare readonly retryable: boolean;
  /** The delay after which to retry, in seconds. */
  declare readonly retry_after_seconds: number | undefined;
  /** Details, such as the field that is wrong. */
  declare readonly details: ErrorDetails;
  /** The HTTP status, for requests over REST. */
  declare readonly status: number | undefined;
  /** The id of the request in the server's log, for requests over REST. */
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
