/** The open connections of this node, fullest outbox first. */
import { CONNECTIONS_LISTED, type Console } from "../model/console.js";
import { bytes } from "./figure.js";
import { ago } from "./time.js";

/** The connections, each with a way to end it. */
export function ConnectionTable({ console }: { console: Console }) {
  const { connections } = console;
  return (
    <section class="card" aria-labelledby="connections-title">
      <h2 id="connections-title">
        Connections{" "}
        <span class="faint">
          {connections.length === CONNECTIONS_LISTED
            ? `the fullest ${CONNECTIONS_LISTED}`
            : connections.length}
        </span>
      </h2>
      <div class="table" role="region" aria-label="Table of connections" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">User</th>
              <th scope="col">Device</th>
              <th scope="col">Kind</th>
              <th scope="col">Connected</th>
              <th scope="col" class="number">
                Outbox
              </th>
              <th scope="col">
                <span class="hidden">Action</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {connections.map((connection) => (
              <tr key={connection.connection_id} data-testid="connection">
                <th scope="row">{connection.user_id}</th>
                <td>{connection.device_id}</td>
                <td>{connection.kind}</td>
                <td>{ago(connection.connected_at)}</td>
                <td class="number">
                  {connection.outbox?.messages ?? 0} · {bytes(connection.outbox?.bytes ?? 0)}
                </td>
                <td class="number">
                  <button
                    type="button"
                    class="small danger"
                    aria-label={`End ${connection.user_id} on ${connection.device_id}`}
                    onClick={() => void console.end(connection.connection_id)}
                  >
                    End
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
