/** What the console shows: figures of the last two minutes, nodes and connections. */
import { Metrics, rate } from "./metrics.js";
import { Observable } from "./observable.js";
import { type ClusterNode, type OpenConnection, type Operator, ServerRefusal } from "./server.js";

/** How often the server is asked. */
const INTERVAL_MS = 2000;
/** How far the charts reach back. */
export const WINDOW_MS = 120_000;
/** Connections that are listed. */
export const CONNECTIONS_LISTED = 50;

/** A figure at a moment. */
export interface Point {
  at: number;
  value: number;
}

/** The figures that are drawn. */
export const SERIES = ["connections", "deliveries", "sends", "outboxBytes"] as const;
export type SeriesName = (typeof SERIES)[number];

/** The console, while it is open. */
export class Console extends Observable {
  readonly series = new Map<SeriesName, Point[]>(SERIES.map((name) => [name, []]));
  nodes: ClusterNode[] = [];
  connections: OpenConnection[] = [];
  metrics: Metrics | undefined;
  /** Why nothing new is shown. */
  error: string | undefined;
  /** Whether another token is needed. */
  isRefused = false;
  #operator: Operator | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOpen = false;

  /** Who asks; nothing is asked before somebody can. */
  set operator(operator: Operator | undefined) {
    this.#operator = operator;
    this.isRefused = false;
    if (this.#isOpen) void this.#read();
  }

  get hasOperator(): boolean {
    return this.#operator !== undefined;
  }

  /** Begins to ask; answers how to stop. */
  open(): () => void {
    this.#isOpen = true;
    void this.#read();
    return () => {
      this.#isOpen = false;
      clearTimeout(this.#timer);
    };
  }

  /** Ends a connection. */
  async end(connection_id: string): Promise<void> {
    try {
      await this.#operator?.end(connection_id);
      this.connections = this.connections.filter((one) => one.connection_id !== connection_id);
    } catch (error) {
      this.error = reasonOf(error);
    }
    this.changed();
  }

  async #read(): Promise<void> {
    clearTimeout(this.#timer);
    const operator = this.#operator;
    if (operator === undefined || this.isRefused) return;
    try {
      const answers = [
        operator.metrics(),
        operator.nodes(),
        operator.connections(CONNECTIONS_LISTED),
      ] as const;
      const [text, nodes, connections] = await Promise.all(answers);
      this.nodes = nodes;
      this.connections = connections;
      this.#take(new Metrics(text, performance.now()));
      this.error = undefined;
    } catch (error) {
      this.isRefused = error instanceof ServerRefusal && [401, 403].includes(error.status);
      this.error = reasonOf(error);
    }
    this.changed();
    clearTimeout(this.#timer);
    if (this.#isOpen) this.#timer = setTimeout(() => void this.#read(), INTERVAL_MS);
  }

  #take(metrics: Metrics): void {
    const before = this.metrics;
    this.metrics = metrics;
    this.#add("connections", metrics.at, metrics.value("gateway_connections_active"));
    this.#add("outboxBytes", metrics.at, metrics.value("gateway_outbox_bytes"));
    if (before === undefined) return;
    this.#add("deliveries", metrics.at, rate("fanout_deliveries_total", before, metrics));
    this.#add("sends", metrics.at, rate("durability_messages_persisted_total", before, metrics));
  }

  #add(name: SeriesName, at: number, value: number): void {
    const points = (this.series.get(name) ?? []).filter((point) => point.at > at - WINDOW_MS);
    this.series.set(name, [...points, { at, value }]);
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
