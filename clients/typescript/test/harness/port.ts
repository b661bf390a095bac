/** Ports of loopback. */
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/**
 * Below those that outgoing connections take: nobody has one by chance when a server that was told
 * of it begins to listen, or listens again.
 */
const [FIRST, END] = [10_000, 20_000];

/** A port that nobody listens on. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, END);
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer().once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
