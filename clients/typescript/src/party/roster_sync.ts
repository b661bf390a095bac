/** Keeps the roster of a session current, over the connections that come and go. */

import type { PartyConnection } from "./connection.js";
import { SESSION_UPDATES } from "./documents.js";
import { sessionEventOf } from "./events.js";
import { Roster } from "./roster.js";

/** Who is told what. */
export interface RosterListener {
  /** The roster is another. */
  changed(): void;
  /** The session is over, for good. */
  over(reason: string, newPath: string | null): void;
  /** The stream is over although the connection is not. */
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

  /** Goes on over this connection, on which the session was joined. */
  begin(connection: PartyConnection): void {
    this.stop();
    this.roster.restart();
    const request = { query: SESSION_UPDATES, variables: { sessionId: this.#sessionId } };
    this.#stopStream = connection.subscribe(request, {
      next: (data) => this.#hear(connection, data.sessionUpdates as Record<string, unknown>),
      ended: () => this.#listener.ended(),
    });
  }

  /** Hears nothing more until it goes on. */
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
      // A new stream tells of everybody.
      this.begin(connection);
    }
    this.#listener.changed();
  }
}
