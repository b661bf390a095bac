/** The data of the console: metrics of the last two minutes, nodes and connections. */
import { Metrics, rate } from "./metrics.js";
import { Observable } from "./observable.js";
import { type ClusterNode, type OpenConnection, type Operator, ServerRefusal } from "./server.js";

/** The interval of the requests. */
const INTERVAL_MS = 2000;
/** The time range of the charts. */
export const WINDOW_MS = 120_000;
/** The number of connections listed. */
export const CONNECTIONS_LISTED = 50;

/** A value at a time. */
export interface Point {
  at: number;
  value: number;
}

/** The series that are drawn. */
export const SERIES = ["connections", "deliveries", "sends", "outboxBytes"] as const;
export type SeriesName = (typeof SERIES)[number];

/** The console, while it is open. */
export class Console extends Observable {
  readonly series = new Map<SeriesName, Point[]>(SERIES.map((name) => [name, []]));
  nodes: ClusterNode[] = [];
  connections: OpenConnection[] = [];
  metrics: Metrics | undefined;
  /** Why the data is not current. */
  error: string | undefined;
  /** Whether another token is needed. */
  isRefused = false;
  #operator: Operator | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOpen = false;

  /** The operator whose token is used; nothing is requested without one. */
  set operator(operator: Operator | undefined) {
    this.#operator = operator;
    this.isRefused = false;
    if (this.#isOpen) void this.#read();
  }

  get hasOperator(): boolean {
    return this.#operator !== undefined;
  }

  /** Starts the requests; returns a function that stops them. */
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
    this.#add("deliveries", metrics.at, rate("gateway_deliveries_total", before, metrics));
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
