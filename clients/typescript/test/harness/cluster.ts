/** Several nodes that share a Redis and a PostgreSQL. */
import { freePort } from "./port.js";
import { Postgres } from "./postgres.js";
import { Redis } from "./redis.js";
import { Server, type ServerOptions } from "./server.js";

/** How often a node is started whose engines were too slow for it. */
const ATTEMPTS = 3;

/** Real nodes and the engines of their own. */
export class Cluster {
  private constructor(
    readonly nodes: Server[],
    readonly redis: Redis,
    readonly postgres: Postgres,
  ) {}

  /** Starts so many nodes. */
  static async start(count: number, options: ServerOptions = {}): Promise<Cluster> {
    const [redis, postgres] = await Promise.all([Redis.start(), Postgres.start()]);
    const nodes: Server[] = [];
    for (let number = 0; number < count; number += 1) {
      const environment = {
        HEARTLINE__REDIS__URL: redis.url,
        HEARTLINE__STORE__URL: postgres.url,
        HEARTLINE__CLUSTER__LISTEN: `127.0.0.1:${await freePort()}`,
        HEARTLINE__CLUSTER__SECRET: "what the nodes of these tests know each other by",
        HEARTLINE__SERVER__NAME: `node${number}`,
        ...options.environment,
      };
      nodes.push(await startPatiently({ ...options, environment }));
    }
    return new Cluster(nodes, redis, postgres);
  }

  /** Ends everything and removes its files. */
  async remove(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.remove()));
    await Promise.all([this.redis.remove(), this.postgres.remove()]);
  }
}

/** A node does not begin without its engines, and on a busy machine these may be late. */
async function startPatiently(options: ServerOptions): Promise<Server> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await Server.start(options);
    } catch (error) {
      if (attempt === ATTEMPTS || !String(error).includes("in time")) throw error;
    }
  }
}
