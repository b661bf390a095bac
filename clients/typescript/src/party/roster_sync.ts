/** Keeps the roster of a session current across connections. */

import type { PartyConnection } from "./connection.js";
import { SESSION_UPDATES } from "./documents.js";
import { sessionEventOf } from "./events.js";
import { Roster } from "./roster.js";

/** The callbacks of the sync. */
export interface RosterListener {
  /** The roster has changed. */
  changed(): void;
  /** The session has ended. */
  over(reason: string, newPath: string | null): void;
  /** The stream has ended although the connection has not. */
  ended(): void;
}

/** The stream of the members. */
export class RosterSync {
  readonly roster = new Roster();
  readonly #sessionId: string;
  readonly #listener: RosterListener;
  #stopStream: () => void = () => {};

  constructor(sessionId: string, listener: RosterListener) {
    this.#sessionId = sessionId;
    this.#listener = listener;
  }

  /** Continues on this connection, after the join. */
  begin(connection: PartyConnection): void {
    this.stop();
    this.roster.restart();
    const request = { query: SESSION_UPDATES, variables: { sessionId: this.#sessionId } };
    this.#stopStream = connection.subscribe(request, {
      next: (data) => this.#hear(connection, data.sessionUpdates as Record<string, unknown>),
      ended: () => this.#listener.ended(),
    });
  }

  /** Pauses until it continues. */
  stop(): void {
    this.#stopStream();
    this.#stopStream = () => {};
  }

  #hear(connection: PartyConnection, raw: Record<string, unknown>): void {
    const event = sessionEventOf(raw);
    if (event === null) {
      return;
    }
    const isNext = this.roster.hear(event);
    if (event.type === "SessionEnded") {
      return this.#listener.over(event.reason, event.newPath);
    }
    if (!isNext) {
      // A new stream lists every member.
      this.begin(connection);
    }
    this.#listener.changed();
  }
}
