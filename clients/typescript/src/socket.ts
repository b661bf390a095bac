/** The lasting connection: one WebSocket after another, by the rules of the protocol. */
import { BackOff } from "./back_off.js";
import { Connection, type WebSocketConstructor } from "./connection.js";
import { HeartlineError } from "./error.js";
import { Listeners } from "./listeners.js";
import { type Ending, Policy, type StopReason } from "./policy.js";
import type { ClientFrame, ServerFrame, ServerFrameOf } from "./protocol.gen.js";
import type { TokenSource } from "./token.js";

/** Where a client stands. */
export type SocketState =
  /** Not asked to connect yet. */
  | "idle"
  /** The first attempts. */
  | "connecting"
  | "connected"
  /** Between two connections. */
  | "reconnecting"
  /** Ten attempts failed, or the browser says that the network is gone. Attempts go on. */
  | "offline"
  /** The page stands still; the client comes back with it. */
  | "asleep"
  /** The server, or the token provider, does not want this client back. `connect` begins anew. */
  | "stopped"
  /** Closed by the application, for good. */
  | "closed";

/** What a lasting connection needs. */
export interface SocketSetup {
  WebSocket: WebSocketConstructor;
  /** Where to connect, in turn. */
  urls: string[];
  device_id: string;
  tokens: TokenSource;
  /** Whether the client must not go on as whom the server takes it for. */
  objection(frame: ServerFrameOf<"connection_established">): StopReason | undefined;
  random?: () => number;
}

/** Failures after which the user should be told. */
const FAILURES_UNTIL_OFFLINE = 10;
/** Attempts are at least so far apart, whatever wakes the page. */
const ATTEMPT_INTERVAL_MIN_MS = 1000;

/** The lasting connection. */
export class Socket {
  readonly onState = new Listeners<[SocketState]>();
  readonly onNextAttempt = new Listeners<[number | undefined]>();
  readonly onEstablished = new Listeners<[ServerFrameOf<"connection_established">]>();
  readonly onFrame = new Listeners<[ServerFrame]>();
  readonly onEnded = new Listeners<[]>();
  readonly #setup: SocketSetup;
  readonly #policy: Policy;
  #state: SocketState = "idle";
  #connection: Connection | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Until then the server wants to be left alone. */
  #pausedUntil = 0;
  /** The token that the server refused, until it takes another one; none is empty. */
  #refusedToken = "";
  /**
   * After a failed upgrade the next attempt sends its token in band: a browser is not told why an
   * upgrade fails.
   */
  #isInBand = false;
  #hasConnected = false;
  #lastAttemptAt = 0;
  /** Changes when an attempt is of no interest any more. */
  #generation = 0;
  /** The date of the next attempt, while one is waited for. */
  next_attempt_at: number | undefined;
  /** Why it has stopped. */
  stop_reason: StopReason | undefined;
  /** Why the last attempt came to nothing, if that is known here. */
  last_error: unknown;

  constructor(setup: SocketSetup) {
    this.#setup = setup;
    this.#policy = new Policy(new BackOff(setup.random), setup.urls.length);
  }

  get state(): SocketState {
    return this.#state;
  }

  /** Whether frames can be sent now. */
  get isOpen(): boolean {
    return this.#state === "connected" && this.#connection?.isOpen === true;
  }

  /** Whether so much waits to be written that the rest should wait outside. */
  get isCongested(): boolean {
    return this.#connection?.isCongested === true;
  }

  /** Begins to connect, unless it has begun; after a stop it begins anew. */
  connect(): void {
    if (this.#state !== "idle" && this.#state !== "stopped") return;
    this.stop_reason = undefined;
    this.#refusedToken = "";
    this.#policy.established();
    void this.#attempt();
  }

  /** Hands a newer token to the server; the next connection asks for one anyway. */
  offer(token: string): void {
    this.#connection?.offer(token);
  }

  /** Sends a frame on the present connection. */
  send(frame: ClientFrame): void {
    this.#connection?.send(frame);
  }

  /** Ends it for good. */
  close(): void {
    this.#leave("closed");
  }

  /** Ends it until the application asks again. */
  stop(reason: StopReason): void {
    this.stop_reason = reason;
    this.#leave("stopped");
  }

  /**
   * The page wakes: what waits by the client's own choice is tried now, and what may be dead is
   * asked.
   */
  wake(): void {
    if (this.#state === "connected") this.#connection?.probe();
    else if (this.#state === "asleep" || this.#isWaiting) {
      const at = Math.max(this.#lastAttemptAt + ATTEMPT_INTERVAL_MIN_MS, this.#pausedUntil);
      this.#waitAndAttempt(Math.max(0, at - performance.now()));
    }
  }

  /** The page is about to stand still: a socket that nobody reads would only fill up. */
  sleep(): void {
    if (!["idle", "stopped", "closed"].includes(this.#state)) this.#leave("asleep");
  }

  /** The browser says that the network is gone. It may be wrong, so the server is asked. */
  offline(): void {
    if (this.#state === "connected") this.#connection?.probe();
    else if (this.#isWaiting) this.#setState("offline");
  }

  get #isWaiting(): boolean {
    return this.#timer !== undefined && performance.now() >= this.#pausedUntil;
  }

  #leave(state: SocketState): void {
    this.#generation += 1;
    this.#clearTimer();
    this.#setNextAttempt(undefined);
    const connection = this.#connection;
    this.#connection = undefined;
    connection?.close();
    const wasConnected = this.#state === "connected";
    this.#setState(state);
    if (wasConnected) this.onEnded.tell();
  }

  #clearTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #waitAndAttempt(delayMs: number): void {
    this.#clearTimer();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#attempt();
    }, delayMs);
    this.#setNextAttempt(Date.now() + delayMs);
    // Whoever was told may have closed it.
    if (this.#timer !== undefined) this.#showTrying();
  }

  async #attempt(): Promise<void> {
    const generation = ++this.#generation;
    this.#lastAttemptAt = performance.now();
    this.#setNextAttempt(undefined);
    if (generation === this.#generation) this.#showTrying();
    const { tokens, WebSocket, urls, device_id } = this.#setup;
    const need = tokens.last === this.#refusedToken ? "refused" : "connect";
    let token: string;
    try {
      token = await tokens.get(need);
    } catch (error) {
      this.last_error = error;
      const hasEnded = error instanceof HeartlineError && error.code === "TOKEN_ENDED";
      if (generation === this.#generation) this.#ended({ kind: "no_token", hasEnded });
      return;
    }
    if (generation !== this.#generation) return;
    if (token === this.#refusedToken) {
      // Whoever was not asked for another one may still have it.
      if (need === "connect") void this.#attempt();
      else this.stop("token_refused");
      return;
    }
    const url = urls[this.#policy.urlIndex] ?? "";
    const setup = { WebSocket, url, token, device_id, isInBand: this.#isInBand, tokens };
    try {
      this.#connection = new Connection(setup, {
        established: (frame) => this.#established(frame),
        frame: (frame) => void this.onFrame.tell(frame),
        ended: (ending) => this.#ended(ending),
      });
    } catch (error) {
      // A browser may forbid the address.
      this.last_error = error;
      this.#ended({ kind: "lost" });
    }
  }

  #established(frame: ServerFrameOf<"connection_established">): void {
    const objection = this.#setup.objection(frame);
    if (objection !== undefined) {
      this.stop(objection);
      return;
    }
    this.#policy.established();
    this.#hasConnected = true;
    this.last_error = undefined;
    this.#isInBand = false;
    this.#refusedToken = "";
    this.#setState("connected");
    // Whoever was told may have closed it.
    if (this.#connection !== undefined) this.onEstablished.tell(frame);
  }

  #ended(ending: Ending): void {
    const wasConnected = this.#state === "connected";
    const token = this.#connection?.token ?? "";
    this.#connection = undefined;
    if (ending.kind === "unopened") {
      this.#isInBand = !this.#isInBand;
      this.last_error = ending.error;
    }
    const next = this.#policy.ended(ending);
    if (next.kind === "stop") {
      this.stop_reason = next.reason;
      this.#setState("stopped");
    } else {
      if (next.needsNewToken) this.#refusedToken = token;
      if (next.isAsked) this.#pausedUntil = performance.now() + next.afterMs;
      this.#waitAndAttempt(next.afterMs);
    }
    if (wasConnected) this.onEnded.tell();
  }

  #showTrying(): void {
    const trying = this.#hasConnected ? "reconnecting" : "connecting";
    this.#setState(this.#policy.failures >= FAILURES_UNTIL_OFFLINE ? "offline" : trying);
  }

  #setNextAttempt(at: number | undefined): void {
    if (this.next_attempt_at === at) return;
    this.next_attempt_at = at;
    this.onNextAttempt.tell(at);
  }

  #setState(state: SocketState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.onState.tell(state);
  }
}
