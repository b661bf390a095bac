/** One WebSocket from its upgrade to its end, with the protocol's duties of the client. */
import { NEVER } from "./frame_source.js";
import { Heartbeat } from "./heartbeat.js";
import type { Ending } from "./policy.js";
import {
  CLOSE_ANSWER_DEADLINE_MS,
  type ClientFrame,
  type ConnectionClosing,
  SUBPROTOCOL,
  type ServerFrame,
  type ServerFrameOf,
} from "./protocol.gen.js";
import { Refresh } from "./refresh.js";
import { HeartlineError } from "./error.js";
import { type TokenSource, expiryOf } from "./token.js";

/**
 * The members of a WebSocket that the client uses: the browser's, or that of a package such as
 * `ws`.
 */
export interface WebSocketLike {
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  send(text: string): void;
  close(code?: number): void;
}

/** Makes a WebSocket. */
export type WebSocketConstructor = new (url: string, protocols: string[]) => WebSocketLike;

/** The settings of a connection. */
export interface ConnectionSetup {
  WebSocket: WebSocketConstructor;
  url: string;
  token: string;
  device_id: string;
  /**
   * Whether the token is sent in the first frame instead of the upgrade. This takes one more round
   * trip, but the server can then say why it rejects the token.
   */
  isInBand: boolean;
  tokens: TokenSource;
}

/** The callbacks of a connection. */
export interface ConnectionEvents {
  established(frame: ServerFrameOf<"connection_established">): void;
  frame(frame: ServerFrame): void;
  ended(ending: Ending): void;
}

/** The time limit for the server to admit the connection. */
const ESTABLISH_TIMEOUT_MS = 15_000;
/**
 * The time limit for the Close frame after `connection_closing`: pending answers, then 2 s to
 * write.
 */
const CLOSE_FRAME_TIMEOUT_MS = CLOSE_ANSWER_DEADLINE_MS + 3000;
/** The time limit for an answer when the connection is suspected to be dead. */
const PROBE_TIMEOUT_MS = 5000;
/** The bytes buffered in the socket above which only heartbeats are sent. */
const BUFFERED_BYTES_MAX = 256 * 1024;
/** A timer that fires this late was suspended: the page or the process was frozen. */
const LATE_MS = 1000;

/** One connection. */
export class Connection {
  readonly #setup: ConnectionSetup;
  readonly #events: ConnectionEvents;
  readonly #socket: WebSocketLike;
  readonly #refresh = new Refresh();
  /** The current token. */
  token: string;
  #heartbeat: Heartbeat | undefined;
  #closing: ConnectionClosing | undefined;
  #phaseEndsAt: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = 0;
  #isOpened = false;
  #error: unknown;
  #hasEnded = false;

  constructor(setup: ConnectionSetup, events: ConnectionEvents) {
    this.#setup = setup;
    this.#events = events;
    this.token = setup.token;
    this.#phaseEndsAt = performance.now() + ESTABLISH_TIMEOUT_MS;
    const protocols = [SUBPROTOCOL, `device.${setup.device_id}`];
    if (!setup.isInBand) protocols.push(`bearer.${setup.token}`);
    const socket = new setup.WebSocket(setup.url, protocols);
    this.#socket = socket;
    socket.onopen = () => (this.#isOpened = true);
    socket.onmessage = (event: { data: unknown }) => this.#onText(event.data);
    socket.onclose = (event: { code: number }) => this.#onClose(event.code);
    // The close event that follows ends the connection; only `ws` gives the reason here.
    socket.onerror = (event: { error?: unknown }) => (this.#error = event.error);
    this.#schedule();
  }

  /**
   * Whether the application's frames may be sent: from `connection_established` until the server
   * stops reading.
   */
  get isOpen(): boolean {
    return this.#heartbeat !== undefined && this.#closing === undefined && !this.#hasEnded;
  }

  /** Whether the socket's buffer is so full that frames should stay queued in the client. */
  get isCongested(): boolean {
    return this.#socket.bufferedAmount > BUFFERED_BYTES_MAX;
  }

  /** Sends a frame. */
  send(frame: ClientFrame): void {
    if (!this.#hasEnded) this.#socket.send(JSON.stringify(frame));
  }

  /** Sends a newer token to the server. */
  offer(token: string): void {
    if (!this.isOpen) return;
    this.send({ type: "refresh_token", request_id: this.#refresh.offer(token), token });
  }

  /** Sends a heartbeat and waits only briefly for the answer. */
  probe(): void {
    if (!this.isOpen) return;
    this.#beat(performance.now(), PROBE_TIMEOUT_MS);
    this.#schedule();
  }

  /** Closes the connection without calling the listener. */
  close(): void {
    this.#finish();
    this.#socket.close(1000);
  }

  #onText(data: unknown): void {
    if (this.#hasEnded || typeof data !== "string") return;
    this.#heartbeat?.heard();
    let frame: ServerFrame;
    try {
      frame = JSON.parse(data) as ServerFrame;
    } catch {
      // Ignore unknown frames: a later version of the server may send them.
      return;
    }
    this.#onFrame(frame);
    this.#schedule();
  }

  #onFrame(frame: ServerFrame): void {
    const [now, wall] = [performance.now(), Date.now()];
    switch (frame.type) {
      case "auth_challenge": {
        const { device_id } = this.#setup;
        this.send({ type: "authenticate", token: this.token, device_id });
        return;
      }
      case "connection_established": {
        const { heartbeat_interval_ms, heartbeat_timeout_ms } = frame;
        this.#heartbeat = new Heartbeat(heartbeat_interval_ms, heartbeat_timeout_ms, now);
        this.#refresh.inForce(expiryOf(this.token), now, wall);
        this.#events.established(frame);
        // A newer token was fetched while this one was being sent.
        const { last } = this.#setup.tokens;
        if (last !== undefined && last !== this.token) this.offer(last);
        return;
      }
      case "token_expired":
        this.#refresh.expired(now);
        break;
      case "token_refreshed":
        this.token = this.#refresh.accepted(frame.request_id) ?? this.token;
        this.#refresh.inForce(Date.parse(frame.expires_at), now, wall);
        break;
      case "error":
        if (frame.request_id !== undefined) this.#refresh.refused(frame.request_id, now, wall);
        break;
      case "connection_closing":
        this.#closing = frame;
        this.#phaseEndsAt = now + CLOSE_FRAME_TIMEOUT_MS;
        break;
    }
    // Frames before `connection_established` are not for the application.
    if (this.#heartbeat !== undefined) this.#events.frame(frame);
  }

  #onClose(code: number): void {
    if (this.#hasEnded) return;
    this.#finish();
    const ending: Ending = this.#isOpened
      ? { kind: "closed", code, closing: this.#closing }
      : { kind: "unopened", error: this.#error };
    this.#events.ended(ending);
  }

  /** Gives the connection up; a `connection_closing` received before still counts. */
  #giveUp(): void {
    this.#finish();
    // A dead peer does not answer a Close frame; `ws` can terminate without one.
    const socket = this.#socket as WebSocketLike & { terminate?: () => void };
    if (socket.terminate === undefined) socket.close();
    else socket.terminate();
    const closing = this.#closing;
    const isSilent = closing === undefined;
    this.#events.ended(isSilent ? { kind: "lost" } : { kind: "closed", code: 1006, closing });
  }

  #finish(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
  }

  #beat(now: number, patienceMs?: number): void {
    this.#heartbeat?.sent(now, patienceMs);
    // Frames that are still being written prove activity; a heartbeat would only add to the buffer.
    if (this.#socket.bufferedAmount === 0) this.send({ type: "heartbeat" });
  }

  #schedule(): void {
    if (this.#hasEnded) return;
    const { nextAt = NEVER, deadAt = NEVER } = this.#heartbeat ?? {};
    const phaseEndsAt = this.isOpen ? NEVER : this.#phaseEndsAt;
    const at = Math.min(nextAt, deadAt, phaseEndsAt, this.#refresh.dueAt);
    if (at === this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(() => this.#tick(), Math.max(0, at - performance.now()));
  }

  #tick(): void {
    const now = performance.now();
    const heartbeat = this.#heartbeat;
    if (now - this.#timerAt > LATE_MS) heartbeat?.resumed(now);
    this.#timerAt = 0;
    const { nextAt = NEVER, deadAt = NEVER } = heartbeat ?? {};
    if (now >= deadAt || (!this.isOpen && now >= this.#phaseEndsAt)) {
      this.#giveUp();
      return;
    }
    if (now >= nextAt) this.#beat(now);
    if (now >= this.#refresh.dueAt) void this.#fetchToken();
    this.#schedule();
  }

  async #fetchToken(): Promise<void> {
    const need = this.#refresh.begin();
    try {
      const token = await this.#setup.tokens.get(need);
      if (token === this.token) this.#refresh.notYet(performance.now(), Date.now());
      else this.offer(token);
    } catch (error) {
      // The connection stays open until the server closes it; the same error then decides.
      const hasEnded = error instanceof HeartlineError && error.code === "TOKEN_ENDED";
      if (!hasEnded) this.#refresh.notYet(performance.now(), Date.now());
    }
    this.#schedule();
  }
}
