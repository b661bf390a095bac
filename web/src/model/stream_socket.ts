/**
 * A WebSocket whose reader can be stopped. A browser always reads an ordinary WebSocket; from a
 * `WebSocketStream`, where it exists, it reads no more than the page takes, so a page that takes
 * nothing blocks the server.
 */

/** The members of the browser's `WebSocketStream` that are used; the type library lacks it. */
interface Stream {
  opened: Promise<{ readable: ReadableStream<unknown>; writable: WritableStream<string> }>;
  closed: Promise<{ closeCode?: number; reason?: string }>;
  close(info?: { closeCode?: number; reason?: string }): void;
}

type StreamConstructor = new (url: string, options: { protocols: string[] }) => Stream;

const constructor = (globalThis as { WebSocketStream?: StreamConstructor }).WebSocketStream;

/** Whether this browser has `WebSocketStream`. */
export const HAS_STREAMS = constructor !== undefined;

/** The socket, with the members of `WebSocket` that a client library uses. */
export class StreamSocket {
  onopen: ((event: Event) => void) | null = null;
  onmessage: ((event: MessageEvent) => void) | null = null;
  onclose: ((event: CloseEvent) => void) | null = null;
  onerror: ((event: Event) => void) | null = null;
  readonly bufferedAmount = 0;
  readyState: number = WebSocket.CONNECTING;
  readonly #stream: Stream;
  #writer: WritableStreamDefaultWriter<string> | undefined;
  /** While set, nothing is read; resolving it continues. */
  #paused: Promise<void> | undefined;
  #resume: () => void = () => {};

  constructor(url: string, protocols: string | string[]) {
    if (constructor === undefined) throw new TypeError("this browser has no WebSocketStream");
    this.#stream = new constructor(url, { protocols: [protocols].flat() });
    void this.#run();
  }

  send(text: string): void {
    // After a failed write the socket closes and reports the reason.
    this.#writer?.write(text).catch(() => {});
  }

  close(code?: number, reason?: string): void {
    this.readyState = WebSocket.CLOSING;
    this.pause(false);
    this.#stream.close({
      ...(code === undefined ? {} : { closeCode: code }),
      ...(reason === undefined ? {} : { reason }),
    });
  }

  /** Stops reading, or continues. */
  pause(isPaused: boolean): void {
    if (!isPaused) this.#resume();
    this.#paused = isPaused ? new Promise((resolve) => (this.#resume = resolve)) : undefined;
  }

  async #run(): Promise<void> {
    try {
      const { readable, writable } = await this.#stream.opened;
      this.readyState = WebSocket.OPEN;
      this.#writer = writable.getWriter();
      this.onopen?.(new Event("open"));
      await this.#read(readable.getReader());
    } catch {
      this.onerror?.(new Event("error"));
    }
    const { closeCode: code = 1006, reason = "" } = await this.#stream.closed.catch(
      () =>
        ({}) as {
          closeCode?: number;
          reason?: string;
        },
    );
    this.readyState = WebSocket.CLOSED;
    this.onclose?.(new CloseEvent("close", { code, reason }));
  }

  async #read(reader: ReadableStreamDefaultReader<unknown>): Promise<void> {
    for (;;) {
      await this.#paused;
      const { value, done } = await reader.read();
      if (done) return;
      this.onmessage?.(new MessageEvent("message", { data: value }));
    }
  }
}
