/** The permanent connection: one WebSocket after another, by the rules of the protocol. */
import { BackOff } from "./back_off.js";
import { Connection, type WebSocketConstructor } from "./connection.js";
import { HeartlineError } from "./error.js";
import { Listeners } from "./listeners.js";
import { type Ending, Policy, type StopReason } from "./policy.js";
import type { ClientFrame, ServerFrame, ServerFrameOf } from "./protocol.gen.js";
import type { TokenSource } from "./token.js";

/** The state of a client's connection. */
export type SocketState =
  /** `connect` was not called yet. */
  | "idle"
  /** First attempts to connect. */
  | "connecting"
  | "connected"
  /** The connection was lost; reconnecting. */
  | "reconnecting"
  /** Ten attempts failed, or the browser reports no network. Attempts continue. */
  | "offline"
  /** The page is frozen; the client reconnects when it resumes. */
  | "asleep"
  /** The server or the token provider ended the session. `connect` starts again. */
  | "stopped"
  /** Closed by the application, for good. */
  | "closed";

/** The settings of a permanent connection. */
export interface SocketSetup {
  WebSocket: WebSocketConstructor;
  /** The URLs, used in turn. */
  urls: string[];
  device_id: string;
  tokens: TokenSource;
  /** Whether the client must stop because the server reports another user. */
  objection(frame: ServerFrameOf<"connection_established">): StopReason | undefined;
  random?: () => number;
}

/** The number of failures after which the state becomes `offline`. */
const FAILURES_UNTIL_OFFLINE = 10;
/** The shortest interval between attempts. */
const ATTEMPT_INTERVAL_MIN_MS = 1000;

/** The permanent connection. */
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
  /** The end of the delay that the server requested. */
  #pausedUntil = 0;
  /** The token that the server rejected, until it accepts another one; empty if none. */
  #refusedToken = "";
  /**
   * After a failed upgrade the next attempt sends its token in a frame, because a browser does not
   * learn why an upgrade fails.
   */
  #isInBand = false;
  #hasConnected = false;
  #lastAttemptAt = 0;
  /** Changes when an attempt becomes obsolete. */
  #generation = 0;
  /** The time of the next attempt, while the client waits for it. */
  next_attempt_at: number | undefined;
  /** Why the client has stopped. */
  stop_reason: StopReason | undefined;
  /** Why the last attempt failed, if that is known. */
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

  /** Whether the socket's buffer is so full that frames should stay queued in the client. */
  get isCongested(): boolean {
    return this.#connection?.isCongested === true;
  }

  /** Starts connecting, unless started already; after a stop it starts again. */
  connect(): void {
    if (this.#state !== "idle" && this.#state !== "stopped") return;
    this.stop_reason = undefined;
    this.#refusedToken = "";
    this.#policy.established();
    void this.#attempt();
  }

  /** Sends a newer token to the server; without a connection the next one requests it anyway. */
  offer(token: string): void {
    this.#connection?.offer(token);
  }

  /** Sends a frame on the current connection. */
  send(frame: ClientFrame): void {
    this.#connection?.send(frame);
  }

  /** Closes it for good. */
  close(): void {
    this.#leave("closed");
  }

  /** Stops until the application calls `connect` again. */
  stop(reason: StopReason): void {
    this.stop_reason = reason;
    this.#leave("stopped");
  }

  /**
   * The page resumes: retries now unless the server requested a delay, and checks a connection that
   * may be dead.
   */
  wake(): void {
    if (this.#state === "connected") this.#connection?.probe();
    else if (this.#state === "asleep" || this.#isWaiting) {
      const at = Math.max(this.#lastAttemptAt + ATTEMPT_INTERVAL_MIN_MS, this.#pausedUntil);
      this.#waitAndAttempt(Math.max(0, at - performance.now()));
    }
  }

  /** The page is about to be frozen: closes the socket, because no code would read it. */
  sleep(): void {
    if (!["idle", "stopped", "closed"].includes(this.#state)) this.#leave("asleep");
  }

  /**
   * The browser reports that the network is gone. It can be wrong, so the client sends a heartbeat.
   */
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
    // A listener may have closed the client.
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
      // The provider may still return the rejected token.
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
      // A browser may forbid the URL.
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
    // A listener may have closed the client.
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
