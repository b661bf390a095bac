/** A network between the browser and the server that can really fail. */
import { type Server as Listener, type Socket, connect, createServer } from "node:net";

/**
 * Forwards connections to a server. A browser that is told to be offline only holds its open
 * sockets back and lets everything through later; this cuts them.
 */
export class Network {
  readonly #sockets = new Set<Socket>();
  readonly #listener: Listener;
  #isDown = false;
  /** Where the browser finds the server. */
  url = "";

  private constructor(port: number) {
    this.#listener = createServer((near) => this.#accept(near, port));
  }

  /** A network that leads to a server. */
  static async to(server_url: string): Promise<Network> {
    const network = new Network(Number(new URL(server_url).port));
    const listener = network.#listener;
    await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
    const address = listener.address();
    if (typeof address === "object") network.url = `http://127.0.0.1:${address?.port}`;
    return network;
  }

  /** Cuts everything, and whoever comes, until it is up again. */
  down(): void {
    this.#isDown = true;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  up(): void {
    this.#isDown = false;
  }

  /** Ends it for good. */
  async close(): Promise<void> {
    this.down();
    await new Promise((resolve) => this.#listener.close(resolve));
  }

  #accept(near: Socket, port: number): void {
    if (this.#isDown) return void near.resetAndDestroy();
    const far = connect(port, "127.0.0.1");
    for (const [one, other] of [[near, far] as const, [far, near] as const]) {
      this.#sockets.add(one);
      one.on("error", () => other.destroy());
      one.on("close", () => {
        this.#sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  }
}
