/** Whether, when and where to reconnect: the rules of the protocol, without a socket. */
import { BackOff, SERVER_DELAY_MAX_MS } from "./back_off.js";
import { CLOSE_REASONS, type CloseReason, type ConnectionClosing } from "./protocol.gen.js";

/** How an attempt or a connection ended. */
export type Ending =
  /** The server, or a proxy, closed the connection; `closing` is the frame that it sent before. */
  | { kind: "closed"; code: number; closing: ConnectionClosing | undefined }
  /** The upgrade failed. A browser does not say why. */
  | { kind: "unopened"; error: unknown }
  /** The connection broke, or the client gave it up. */
  | { kind: "lost" }
  /** There was no token. */
  | { kind: "no_token"; hasEnded: boolean };

/** Why a client stops. */
export type StopReason =
  | CloseReason
  /** The server rejected a second token, or the provider returned the same one. */
  | "token_refused"
  /** The provider threw `TOKEN_ENDED`. */
  | "token_ended"
  /** The storage belongs to another user. */
  | "storage_of_another_user";

/** The next step after an ending. */
export type Next =
  | {
      kind: "retry";
      afterMs: number;
      /** Whether the server requested this delay, so that nothing may shorten it. */
      isAsked: boolean;
      needsNewToken: boolean;
    }
  | { kind: "stop"; reason: StopReason };

/** The state of the rules: the attempts since the last established connection. */
export class Policy {
  readonly #backOff: BackOff;
  readonly #urlCount: number;
  #hasReplacedToken = false;
  /** The index of the URL to use. */
  urlIndex = 0;
  /** The number of endings since the last established connection. */
  failures = 0;

  constructor(backOff: BackOff, urlCount: number) {
    this.#backOff = backOff;
    this.#urlCount = urlCount;
  }

  /** The server admitted the connection: resets all counters. */
  established(): void {
    this.#backOff.reset();
    this.failures = 0;
    this.#hasReplacedToken = false;
  }

  /** Decides what to do after an ending. */
  ended(ending: Ending): Next {
    this.failures += 1;
    this.urlIndex = (this.urlIndex + 1) % this.#urlCount;
    if (ending.kind === "no_token" && ending.hasEnded) return stop("token_ended");
    if (ending.kind !== "closed") return this.#backedOff();
    const { closing, code } = ending;
    const reason = closing?.reason ?? reasonOf(code);
    const rule = CLOSE_REASONS[reason]?.reconnect;
    const asked = closing?.reconnect_delay_ms ?? 0;
    const retry = asked > 0 ? retryAsked(asked) : this.#backedOff();
    if (rule === "with_new_token") return this.#withNewToken(retry);
    if (rule === "never" || closing?.reconnect_allowed === false) return stop(reason);
    return retry;
  }

  #backedOff(): Next & { kind: "retry" } {
    const afterMs = this.#backOff.next();
    return { kind: "retry", afterMs, isAsked: false, needsNewToken: false };
  }

  #withNewToken(retry: Next & { kind: "retry" }): Next {
    if (this.#hasReplacedToken) return stop("token_refused");
    this.#hasReplacedToken = true;
    return { ...retry, needsNewToken: true };
  }
}

/**
 * Maps a close code to a reason when the closing frame was lost; reasons with the same code have
 * the same rule. An unknown code is treated like an unknown reason.
 */
function reasonOf(code: number): CloseReason {
  const isIt = (reason: string) => CLOSE_REASONS[reason as CloseReason].code === code;
  return Object.keys(CLOSE_REASONS).find(isIt) as CloseReason;
}

function retryAsked(delayMs: number): Next & { kind: "retry" } {
  const afterMs = Math.min(delayMs, SERVER_DELAY_MAX_MS);
  return { kind: "retry", afterMs, isAsked: true, needsNewToken: false };
}

function stop(reason: StopReason): Next {
  return { kind: "stop", reason };
}
