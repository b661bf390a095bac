/** Whether, when and where to come back: the reconnect rules of the protocol, without a socket. */
import { BackOff, SERVER_DELAY_MAX_MS } from "./back_off.js";
import { CLOSE_REASONS, type CloseReason, type ConnectionClosing } from "./protocol.gen.js";

/** How an attempt or a connection ended. */
export type Ending =
  /** The server, or something between, closed it; `closing` is what it said before. */
  | { kind: "closed"; code: number; closing: ConnectionClosing | undefined }
  /** The upgrade failed. A browser does not say why. */
  | { kind: "unopened"; error: unknown }
  /** It broke, or was given up. */
  | { kind: "lost" }
  /** There was no token. */
  | { kind: "no_token"; hasEnded: boolean };

/** Why a client makes no further attempt. */
export type StopReason =
  | CloseReason
  /** A second token was refused, or the provider had no other one. */
  | "token_refused"
  /** The provider said that there will be none. */
  | "token_ended"
  /** The outbox of this storage belongs to somebody else. */
  | "storage_of_another_user";

/** What follows an ending. */
export type Next =
  | {
      kind: "retry";
      afterMs: number;
      /** Whether the server asked for this pause, so that nothing may shorten it. */
      isAsked: boolean;
      needsNewToken: boolean;
    }
  | { kind: "stop"; reason: StopReason };

/** The memory of the rules: what was tried since the last established connection. */
export class Policy {
  readonly #backOff: BackOff;
  readonly #urlCount: number;
  #hasReplacedToken = false;
  /** Whose turn it is among the URLs. */
  urlIndex = 0;
  /** Endings since the last established connection. */
  failures = 0;

  constructor(backOff: BackOff, urlCount: number) {
    this.#backOff = backOff;
    this.#urlCount = urlCount;
  }

  /** The server admitted the connection, so all that was held against it is forgotten. */
  established(): void {
    this.#backOff.reset();
    this.failures = 0;
    this.#hasReplacedToken = false;
  }

  /** Decides what follows an ending. */
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
 * The closing frame was lost, so the code alone speaks; reasons that share one have the same rule.
 * A code of nobody's is like a reason that only a later server knows.
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
