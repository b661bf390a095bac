/** When to send heartbeats, and when to consider the server dead. */
import { NEVER } from "./frame_source.js";

/** The shortest accepted interval; a shorter one is a server bug and would make the client spin. */
const INTERVAL_MIN_MS = 10;

/** The heartbeats of one established connection. */
export class Heartbeat {
  readonly intervalMs: number;
  readonly #timeoutMs: number;
  /** The time of the next heartbeat. */
  nextAt: number;
  /** The time at which the server counts as dead if nothing arrives before. */
  deadAt = NEVER;
  /** Whether the client was suspended since it last received a frame. */
  #hasResumed = false;

  constructor(intervalMs: number, timeoutMs: number, now: number) {
    this.intervalMs = Math.max(intervalMs, INTERVAL_MIN_MS);
    this.#timeoutMs = Math.max(timeoutMs, this.intervalMs);
    this.nextAt = now + this.intervalMs;
  }

  /**
   * A heartbeat was sent. The client waits for an answer for this time, or for the server's timeout
   * if that is shorter.
   */
  sent(now: number, patienceMs: number = this.#timeoutMs): void {
    this.nextAt = now + this.intervalMs;
    this.deadAt = Math.min(this.deadAt, now + Math.min(patienceMs, this.#timeoutMs));
  }

  /** A frame arrived, which proves that the server is alive. */
  heard(): void {
    this.deadAt = NEVER;
    this.#hasResumed = false;
  }

  /**
   * The client was suspended, frozen or busy. The silence was its own, so the wait for an answer
   * starts again: once, because the timers of a hidden page are always late.
   */
  resumed(now: number): void {
    if (this.deadAt === NEVER || this.#hasResumed) return;
    this.#hasResumed = true;
    this.deadAt = now + this.#timeoutMs;
  }
}
