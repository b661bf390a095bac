/** Sends frames when they are due. */
import { type FrameSource, NEVER } from "./frame_source.js";
import { Pace } from "./pace.js";
import type { ClientFrame, ClientLimits } from "./protocol.gen.js";

/** The socket to which frames are written. */
export interface FrameSink {
  readonly isOpen: boolean;
  readonly isCongested: boolean;
  send(frame: ClientFrame): void;
}

/** How soon a full socket is checked again. */
const CONGESTED_MS = 50;
/** The longest delay of a timer. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Sends messages first, then all other frames, within the server's rate. */
export class Pump {
  readonly #sink: FrameSink;
  /** A source that limits its own rate. */
  readonly #messages: FrameSource;
  readonly #others: FrameSource[];
  #pace = new Pace();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isKicked = false;

  constructor(sink: FrameSink, messages: FrameSource, others: FrameSource[]) {
    this.#sink = sink;
    this.#messages = messages;
    this.#others = others;
  }

  /** A connection was opened, with these limits. */
  established(limits: ClientLimits): void {
    this.#pace = new Pace(limits.frame_rate, limits.frame_burst);
    this.kick();
  }

  /** Checks for frames to send, after the current task. */
  kick(): void {
    if (this.#isKicked) return;
    this.#isKicked = true;
    queueMicrotask(() => {
      this.#isKicked = false;
      this.#run();
    });
  }

  /** Stops sending. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  #run(): void {
    clearTimeout(this.#timer);
    while (this.#sink.isOpen && !this.#sink.isCongested) {
      const frame = this.#next(performance.now());
      if (frame === undefined) break;
      this.#sink.send(frame);
    }
    if (!this.#sink.isOpen) return;
    const now = performance.now();
    const at = this.#sink.isCongested ? now + CONGESTED_MS : this.#nextAt(now);
    if (at === NEVER) return;
    const delayMs = Math.min(Math.max(0, at - now), TIMER_MAX_MS);
    this.#timer = setTimeout(() => this.#run(), Math.ceil(delayMs));
  }

  #next(now: number): ClientFrame | undefined {
    const message = this.#messages.next(now);
    if (message !== undefined || this.#pace.readyAt(now) > now) return message;
    for (const source of this.#others) {
      const frame = source.next(now);
      if (frame === undefined) continue;
      this.#pace.spend(now);
      return frame;
    }
    return undefined;
  }

  #nextAt(now: number): number {
    const otherAt = Math.min(...this.#others.map((source) => source.dueAt(now)));
    return Math.min(this.#messages.dueAt(now), Math.max(otherAt, this.#pace.readyAt(now)));
  }
}
