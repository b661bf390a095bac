/** When to say "I am alive", and when the server is not. */
import { NEVER } from "./frame_source.js";

/** A shorter advertised interval is a mistake of the server and would keep the client spinning. */
const INTERVAL_MIN_MS = 10;

/** The heartbeats of one established connection. */
export class Heartbeat {
  readonly intervalMs: number;
  readonly #timeoutMs: number;
  /** When the next one is due. */
  nextAt: number;
  /** When the server will count as dead, if nothing comes before. */
  deadAt = NEVER;
  /** Whether the client has stood still since it last heard something. */
  #hasResumed = false;

  constructor(intervalMs: number, timeoutMs: number, now: number) {
    this.intervalMs = Math.max(intervalMs, INTERVAL_MIN_MS);
    this.#timeoutMs = Math.max(timeoutMs, this.intervalMs);
    this.nextAt = now + this.intervalMs;
  }

  /**
   * One was sent; an answer is waited for no longer than this, or than the server's own timeout.
   */
  sent(now: number, patienceMs: number = this.#timeoutMs): void {
    this.nextAt = now + this.intervalMs;
    this.deadAt = Math.min(this.deadAt, now + Math.min(patienceMs, this.#timeoutMs));
  }

  /** Something came from the server: whatever it is, it is alive. */
  heard(): void {
    this.deadAt = NEVER;
    this.#hasResumed = false;
  }

  /**
   * The client itself stood still for a while, frozen or busy. That silence was its own, so the
   * wait for an answer begins anew: once, because the timers of a hidden page are always late.
   */
  resumed(now: number): void {
    if (this.deadAt === NEVER || this.#hasResumed) return;
    this.#hasResumed = true;
    this.deadAt = now + this.#timeoutMs;
  }
}
