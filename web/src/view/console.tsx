/** The console: the state of this server. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useObservable } from "../model/observable.js";
import type { Console } from "../model/console.js";
import { Operator } from "../model/server.js";
import type { Session } from "../model/session.js";
import { Chart } from "./chart.js";
import { ConnectionTable } from "./connection_table.js";
import { bytes, figure } from "./figure.js";
import { sentence } from "./sentence.js";
import { ago, leaseText } from "./time.js";

/** The console. */
export function ConsoleView({ session }: { session: Session }) {
  const console = useObservable(session.console);
  useEffect(() => console.open(), [console]);
  const isLocked = !console.hasOperator || console.isRefused;
  return (
    <div class="page console">
      <div class="bar">
        <h1>Console</h1>
        <p class="faint">{session.identity.node.node_id}, every 2 s</p>
      </div>
      {console.error !== undefined && !isLocked && (
        <p class="notice error" role="alert">
          {sentence(console.error)} The figures below are the last ones received.
        </p>
      )}
      {isLocked ? <Unlock console={console} /> : <Figures console={console} />}
    </div>
  );
}

function Unlock({ console }: { console: Console }) {
  const [token, setToken] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    const given = token.trim();
    if (given !== "") console.operator = new Operator(async () => given);
  };
  return (
    <section class="card" aria-labelledby="unlock-title">
      <h2 id="unlock-title">The console needs a service token</h2>
      <p>
        Paste a token whose scope contains <code>service</code>. The page does not store it.
      </p>
      <form class="inline-form" onSubmit={submit}>
        <label class="field grow">
          <span>Service token</span>
          <input
            type="password"
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        <button type="submit" class="primary">
          Open
        </button>
      </form>
      {console.isRefused && (
        <p class="error" role="alert">
          The server rejected this token: {console.error}
        </p>
      )}
    </section>
  );
}

function Figures({ console }: { console: Console }) {
  const { series, metrics } = console;
  if (metrics === undefined) return <p class="note">Loading…</p>;
  const value = (name: string) => figure(metrics.value(name));
  return (
    <>
      <div class="charts">
        <Chart title="Connections" points={series.get("connections") ?? []} format={figure} />
        <Chart
          title="Deliveries per second"
          points={series.get("deliveries") ?? []}
          format={figure}
        />
        <Chart title="Sends per second" points={series.get("sends") ?? []} format={figure} />
        <Chart
          title="Outbox bytes"
          points={series.get("outboxBytes") ?? []}
          format={bytes}
        />
      </div>
      <div class="groups">
        <Group title="Slow consumers">
          <Figure label="Warned" value={value("gateway_slow_consumer_warnings_total")} />
          <Figure label="Closed" value={value("gateway_slow_consumer_disconnects_total")} />
          <Figure label="Rate limited" value={value("gateway_rate_limited_total")} />
        </Group>
        <Group title="Leases">
          <Figure label="Renewed" value={value("routing_renewals_total")} />
          <Figure label="Lost" value={value("routing_leases_lost_total")} />
          <Figure label="Swept" value={value("routing_leases_swept_total")} />
          <Figure label="Connections without lease" value={value("routing_connections_unleased")} />
        </Group>
        <Group title="Breakers">
          <Breaker label="Writing" state={metrics.value("durability_circuit_breaker_write_state")} />
          <Breaker label="Reading" state={metrics.value("durability_circuit_breaker_read_state")} />
          {metrics.has("redis_breaker_state") && (
            <Breaker label="Redis" state={metrics.value("redis_breaker_state")} />
          )}
        </Group>
        <Group title="Parties">
          <Figure label="Sessions" value={value("party_sessions")} />
          <Figure label="Members" value={value("party_members")} />
        </Group>
      </div>
      <Nodes console={console} />
      <ConnectionTable console={console} />
    </>
  );
}

function Group({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="card group" aria-label={title}>
      <h2>{title}</h2>
      <dl>{children}</dl>
    </section>
  );
}

function Figure({ label, value }: { label: string; value: string }) {
  return (
    <div>
      <dt>{label}</dt>
      <dd>{value}</dd>
    </div>
  );
}

const BREAKER_STATES = ["closed", "open", "probing"] as const;

function Breaker({ label, state }: { label: string; state: number }) {
  const word = BREAKER_STATES[state] ?? "unknown";
  return (
    <div data-breaker={word}>
      <dt>{label}</dt>
      <dd>{word}</dd>
    </div>
  );
}

function Nodes({ console }: { console: Console }) {
  return (
    <section class="card" aria-labelledby="nodes-title">
      <h2 id="nodes-title">
        Nodes <span class="faint">{console.nodes.length}</span>
      </h2>
      <div class="table" role="region" aria-label="Table of nodes" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Planes</th>
              <th scope="col" class="number">
                Connections
              </th>
              <th scope="col">Started</th>
              <th scope="col">Lease</th>
            </tr>
          </thead>
          <tbody>
            {console.nodes.map((node) => (
              <tr key={node.node_id}>
                <th scope="row">{node.node_id}</th>
                <td>{node.planes.join(", ")}</td>
                <td class="number">{node.connections}</td>
                <td>{ago(node.started_at)}</td>
                <td>{leaseText(node.lease_ends_at)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
