/** A network between a client and a server that can fail. */
import { type Server as Listener, type Socket, connect, createServer } from "node:net";

/** Two ends of one connection. */
interface Pair {
  client: Socket;
  server: Socket;
}

/** Forwards TCP connections to a port of loopback. */
export class Proxy {
  readonly #listener: Listener;
  readonly #pairs = new Set<Pair>();
  /** Connections that never come back. */
  readonly #lost = new Set<Pair>();
  readonly #target: () => number;
  #isDown = false;
  #isDark = false;
  #isStalled = false;
  /** How long every byte is under way. */
  delayMs = 0;
  /** How many connections were accepted so far. */
  accepted = 0;
  port = 0;

  private constructor(target: () => number) {
    this.#target = target;
    this.#listener = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
  }

  /** A proxy to the port that is the server's at the time of each connection. */
  static async to(target: () => number): Promise<Proxy> {
    const proxy = new Proxy(target);
    await new Promise<void>((resolve) => proxy.#listener.listen(0, "127.0.0.1", resolve));
    const address = proxy.#listener.address();
    if (typeof address === "object" && address !== null) proxy.port = address.port;
    return proxy;
  }

  /** `127.0.0.1:PORT`. */
  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Where HTTP goes through it. */
  get url(): string {
    return `http://${this.address}`;
  }

  /** Resets every connection that there is. */
  cut(): void {
    for (const pair of this.#pairs) {
      pair.client.resetAndDestroy();
      pair.server.resetAndDestroy();
    }
    this.#pairs.clear();
  }

  /** Cuts everything and resets whoever comes, until `up`. */
  down(): void {
    this.#isDown = true;
    this.cut();
  }

  /** From now on nothing gets through, in either direction, on any connection: no byte, no end. */
  blackHole(): void {
    this.#isDark = true;
    for (const pair of this.#pairs) this.#pause(pair);
  }

  /**
   * The client's side reads no more: what the server sends piles up. What it says still gets
   * through.
   */
  stall(): void {
    this.#isStalled = true;
    for (const pair of this.#pairs) pair.server.pause();
  }

  /** Everything works again; what was held back goes on its way. */
  up(): void {
    this.#isDown = this.#isDark = this.#isStalled = false;
    this.delayMs = 0;
    for (const pair of this.#pairs) {
      pair.client.resume();
      pair.server.resume();
    }
  }

  /** Works again for new connections; those that there were never come back. */
  upForNewOnes(): void {
    for (const pair of this.#pairs) {
      this.#pause(pair);
      this.#lost.add(pair);
    }
    this.#pairs.clear();
    this.up();
  }

  /** Ends it. */
  async remove(): Promise<void> {
    for (const pair of this.#lost) this.#pairs.add(pair);
    this.down();
    await new Promise((resolve) => this.#listener.close(resolve));
  }

  #accept(client: Socket): void {
    this.accepted += 1;
    if (this.#isDown) {
      client.resetAndDestroy();
      return;
    }
    const server = connect({ port: this.#target(), host: "127.0.0.1", allowHalfOpen: true });
    const pair = { client, server };
    this.#pairs.add(pair);
    this.#forward(pair, client, server);
    this.#forward(pair, server, client);
    if (this.#isDark) this.#pause(pair);
    if (this.#isStalled) server.pause();
  }

  #forward(pair: Pair, from: Socket, to: Socket): void {
    from.setNoDelay(true);
    let arrivesAt = 0;
    /** Does something after the delay, and never before what came earlier. */
    const later = (work: () => void) => {
      const now = performance.now();
      arrivesAt = Math.max(arrivesAt, now + this.delayMs);
      if (arrivesAt <= now) work();
      else setTimeout(work, arrivesAt - now);
    };
    const write = (chunk: Buffer) => {
      if (!to.writable || to.write(chunk)) return;
      from.pause();
      to.once("drain", () => {
        if (!this.#isDark && !this.#isStalled) from.resume();
      });
    };
    from.on("data", (chunk) => later(() => write(chunk)));
    from.on("end", () => later(() => to.end()));
    from.on("error", () => to.resetAndDestroy());
    from.on("close", () => this.#pairs.delete(pair));
  }

  #pause(pair: Pair): void {
    pair.client.pause();
    pair.server.pause();
  }
}
