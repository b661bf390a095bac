/**
 * A WebSocket that can be observed and made to fail. The client library uses it in place of the
 * browser's, so that the library meets every fault of "Break it".
 */

import { HAS_STREAMS, StreamSocket } from "./stream_socket.js";

/** A frame, read or written. */
export type Frame = Record<string, unknown> & { type?: string };

/** The events of a socket. */
export type SocketEvent =
  | { kind: "opening"; attempt: number }
  | { kind: "opened" }
  | { kind: "sent"; frame: Frame }
  | { kind: "received"; frame: Frame }
  /** A frame arrived and was dropped before the library. */
  | { kind: "swallowed"; frame: Frame }
  /** `isOurs`: the page dropped the socket; no peer closed it. */
  | { kind: "closed"; code: number; reason: string; isOurs: boolean };

/** All sockets of one purpose, one after the other: their listeners and faults. */
export class SocketTap {
  readonly #listeners = new Set<(event: SocketEvent) => void>();
  #attempt = 0;
  /** The current socket. */
  current: TappedSocket | undefined;
  /** Whether the next sockets use a reader that can be stopped, where the browser allows it. */
  makesStreams = false;
  /** Decides for each received frame whether to drop it. */
  swallows: ((frame: Frame) => boolean) | undefined;

  /** The class to pass to the library. */
  socketClass(): new (url: string, protocols: string | string[]) => TappedSocket {
    const tap = this;
    return class extends TappedSocket {
      constructor(url: string, protocols: string | string[]) {
        super(tap, url, protocols);
      }
    };
  }

  /** Calls the listener with every event; returns a function that removes it. */
  listen(listener: (event: SocketEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Calls the listeners. */
  tell(event: SocketEvent): void {
    for (const listener of [...this.#listeners]) listener(event);
  }

  /** Records a socket that is being opened. */
  began(socket: TappedSocket): void {
    this.current = socket;
    this.#attempt += 1;
    this.tell({ kind: "opening", attempt: this.#attempt });
  }
}

/** One socket. */
export class TappedSocket {
  onopen: ((event: any) => void) | null = null;
  onmessage: ((event: any) => void) | null = null;
  onclose: ((event: any) => void) | null = null;
  onerror: ((event: any) => void) | null = null;
  readonly #tap: SocketTap;
  readonly #socket: WebSocket | StreamSocket;
  /** The frames received while stalled. */
  #unread: MessageEvent[] | undefined;
  #isOver = false;

  constructor(tap: SocketTap, url: string, protocols: string | string[]) {
    this.#tap = tap;
    const isStream = tap.makesStreams && HAS_STREAMS;
    this.#socket = isStream ? new StreamSocket(url, protocols) : new WebSocket(url, protocols);
    tap.began(this);
    this.#socket.onopen = (event: Event) => {
      tap.tell({ kind: "opened" });
      this.onopen?.(event);
    };
    this.#socket.onmessage = (event: MessageEvent) => {
      if (this.#unread === undefined) this.#hear(event);
      else this.#unread.push(event);
    };
    this.#socket.onerror = (event: Event) => this.onerror?.(event);
    this.#socket.onclose = (event: CloseEvent) => this.#end(event, false);
  }

  get bufferedAmount(): number {
    return this.#socket.bufferedAmount;
  }

  get readyState(): number {
    return this.#socket.readyState;
  }

  send(text: string): void {
    this.#socket.send(text);
    this.#tap.tell({ kind: "sent", frame: frameOf(text) });
  }

  close(code?: number, reason?: string): void {
    this.#socket.close(code, reason);
  }

  /**
   * Drops the socket, as a network failure does: the library gets a close event without a reason.
   */
  drop(): void {
    this.#socket.close();
    this.#end(new CloseEvent("close", { code: 1006, reason: "" }), true);
  }

  /** Stops reading, or continues with the frames received meanwhile. */
  stall(isStalled: boolean): void {
    if (this.#socket instanceof StreamSocket) return this.#socket.pause(isStalled);
    const unread = this.#unread ?? [];
    this.#unread = isStalled ? unread : undefined;
    if (!isStalled) for (const event of unread) this.#hear(event);
  }

  #hear(event: MessageEvent): void {
    if (this.#isOver) return;
    const frame = frameOf(String(event.data));
    if (this.#tap.swallows?.(frame) === true) {
      this.#tap.tell({ kind: "swallowed", frame });
      return;
    }
    this.#tap.tell({ kind: "received", frame });
    this.onmessage?.(event);
  }

  #end(event: CloseEvent, isOurs: boolean): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#tap.tell({ kind: "closed", code: event.code, reason: event.reason, isOurs });
    this.onclose?.(event);
  }
}

function frameOf(text: string): Frame {
  try {
    return JSON.parse(text) as Frame;
  } catch {
    return {};
  }
}
