/** The entry to party sessions: shared queues. */

import type { WebSocketConstructor } from "../connection.js";
import { Listeners, type Unsubscribe } from "../listeners.js";
import type { PageDocument, PageWindow } from "../page.js";
import type { TokenNeed } from "../token.js";
import type { Edit } from "./edit.js";
import { graphqlUrlOf } from "./endpoint.js";
import { PartyError } from "./error.js";
import { type ClimbQueueItem, itemOf } from "./item.js";
import { indexOf } from "./queue.js";
import { randomId } from "./random_id.js";
import { Memory, type PartyStorage, type RememberedSession, tabStorage } from "./remembered.js";
import { PartySession, type SessionSettings } from "./session.js";
import { IDLE, type PartyState } from "./state.js";

/** Returns tokens, or null for an anonymous member. The provider of the chat client works too. */
export type PartyTokenProvider = (need: TokenNeed) => string | null | Promise<string | null>;

/** Options of a party. */
export interface PartyOptions {
  /** The server, such as `https://example.com`; several are tried in turn. */
  readonly url: string | readonly string[];
  /**
   * A token, or a function that returns one before each connection. Without one the member is
   * anonymous.
   */
  readonly token?: string | null | PartyTokenProvider;
  /**
   * The storage in which a reload finds the session: the tab's `sessionStorage` by default; null
   * for none.
   */
  readonly storage?: PartyStorage | null;
  /** The WebSocket class to use; default: the global `WebSocket`. */
  readonly WebSocket?: WebSocketConstructor;
  /** The time limit for an edit; without an answer the edit is reverted. */
  readonly editTimeoutMs?: number;
  /** The time without events after which the queue is compared with the server's. */
  readonly verifyAfterMs?: number;
  /** The time limit for opening a connection. */
  readonly openTimeoutMs?: number;
  /** The silence after which the client sends a ping. */
  readonly silenceMs?: number;
  readonly window?: PageWindow;
  readonly document?: PageDocument;
}

/** Options of a join. */
export interface JoinOptions {
  /** The board, as a path of the site; the first member's board counts. */
  readonly boardPath: string;
  readonly username?: string;
  readonly avatarUrl?: string;
  /** The session's name, set by the first member. */
  readonly sessionName?: string;
}

/** A local queue. */
export interface LocalQueue {
  readonly queue: readonly ClimbQueueItem[];
  readonly current?: ClimbQueueItem | null;
}

/** At most one session at a time: its state, and its operations. */
export class Party {
  readonly #settings: SessionSettings;
  readonly #listeners = new Listeners<[]>();
  #session: PartySession | null = null;
  #state: PartyState | null = IDLE;

  constructor(options: PartyOptions) {
    const maker = options.WebSocket ?? (globalThis.WebSocket as WebSocketConstructor | undefined);
    if (maker === undefined) {
      throw new TypeError("This runtime has no WebSocket: set options.WebSocket");
    }
    const { url, token = null, storage = tabStorage() } = options;
    const urls = [url].flat().map(graphqlUrlOf);
    if (urls.length === 0) {
      throw new TypeError("options.url must name at least one server");
    }
    this.#settings = {
      urls,
      token: async (need) => (typeof token === "function" ? await token(need) : token),
      WebSocket: maker,
      window: options.window,
      document: options.document,
      memory: new Memory(storage),
      editTimeoutMs: options.editTimeoutMs ?? 30_000,
      verifyAfterMs: options.verifyAfterMs ?? 60_000,
      openTimeoutMs: options.openTimeoutMs ?? 10_000,
      silenceMs: options.silenceMs ?? 5_000,
    };
  }

  /** The current state: the same object until something changes. */
  get state(): PartyState {
    this.#state ??= this.#session?.state() ?? IDLE;
    return this.#state;
  }

  /** The session that `resume` would continue. */
  get remembered(): RememberedSession | null {
    return this.#settings.memory.recall();
  }

  /** How often missed events, and the whole queue, were requested. */
  get repairs(): { readonly replays: number; readonly resyncs: number } {
    const { replays = 0, resyncs = 0 } = this.#session?.sync ?? {};
    return { replays, resyncs };
  }

  /** Calls the listener after every change; returns a function that removes it. */
  readonly subscribe = (listener: () => void): Unsubscribe => this.#listeners.add(listener);

  /** Starts a new session with a local queue, which is kept until the server has stored it. */
  async start(local: LocalQueue, options: JoinOptions): Promise<PartyState> {
    const seed = {
      queue: Object.freeze(local.queue.map(itemOf)),
      current: local.current ? itemOf(local.current) : null,
    };
    return await this.#enter({ sessionId: randomId(), ...known(options), seed });
  }

  /** Joins a session. Resolves when its queue has arrived, however long that takes. */
  async join(sessionId: string, options: JoinOptions): Promise<PartyState> {
    return await this.#enter({ sessionId, ...known(options) });
  }

  /** Continues the remembered session after a reload; returns null if there is none. */
  async resume(): Promise<PartyState | null> {
    const { remembered } = this;
    return remembered && (await this.#enter(remembered));
  }

  /** Leaves the session. A session that failed or was closed is forgotten. */
  async leave(): Promise<void> {
    this.#settings.memory.forget();
    await this.#session?.leave();
  }

  /** Ends the session for everybody. Only its creator and its leader may. */
  async end(): Promise<void> {
    await this.#current().end();
  }

  /** Closes the socket without leaving: `resume` soon after continues as the same member. */
  close(): void {
    this.#session?.close();
  }

  /** Renames this member. */
  async rename(username: string, avatarUrl?: string): Promise<void> {
    await this.#current().rename(username, avatarUrl);
  }

  /** Adds an item to the queue, by default at the end. */
  async add(item: ClimbQueueItem, position: number | null = null): Promise<void> {
    await this.#edit({ name: "addQueueItem", item: itemOf(item), position });
  }

  /** Removes an item. */
  async remove(uuid: string): Promise<void> {
    await this.#edit({ name: "removeQueueItem", uuid });
  }

  /** Moves an item. */
  async reorder(uuid: string, newIndex: number): Promise<void> {
    const oldIndex = Math.max(0, indexOf(this.state.queue, uuid));
    await this.#edit({ name: "reorderQueueItem", uuid, oldIndex, newIndex });
  }

  /** Sets or clears the current climb, and adds it to the queue if requested. */
  async setCurrent(
    item: ClimbQueueItem | null,
    options: { readonly shouldAddToQueue?: boolean } = {},
  ): Promise<void> {
    const shouldAddToQueue = options.shouldAddToQueue ?? false;
    await this.#edit({ name: "setCurrentClimb", item: item && itemOf(item), shouldAddToQueue });
  }

  /** Mirrors the current climb, or undoes it. */
  async mirror(mirrored: boolean): Promise<void> {
    await this.#edit({ name: "mirrorCurrentClimb", mirrored });
  }

  /** Replaces an item by another. */
  async replace(uuid: string, item: ClimbQueueItem): Promise<void> {
    await this.#edit({ name: "replaceQueueItem", uuid, item: itemOf(item) });
  }

  /** Replaces the whole queue, including items that others add meanwhile. */
  async setQueue(
    queue: readonly ClimbQueueItem[],
    current: ClimbQueueItem | null = null,
  ): Promise<void> {
    const items = Object.freeze(queue.map(itemOf));
    await this.#edit({ name: "setQueue", queue: items, current: current && itemOf(current) });
  }

  async #edit(edit: Edit): Promise<void> {
    await this.#current().edit(edit);
  }

  async #enter(remembered: RememberedSession): Promise<PartyState> {
    // The old session is left while the new one is joined; the new one is remembered.
    const left = this.#session?.leave();
    const session: PartySession = new PartySession(this.#settings, remembered, () => {
      if (session === this.#session) {
        this.#show();
      }
    });
    this.#session = session;
    this.#show();
    await Promise.all([left, session.joined]);
    return this.state;
  }

  #current(): PartySession {
    if (this.#session === null) {
      throw new PartyError("NOT_IN_A_SESSION", "There is no session: start or join one first");
    }
    return this.#session;
  }

  #show(): void {
    this.#state = null;
    this.#listeners.tell();
  }
}

function known(options: JoinOptions): Omit<RememberedSession, "sessionId"> {
  const { boardPath, username, avatarUrl, sessionName } = options;
  return {
    boardPath,
    ...(username === undefined ? {} : { username }),
    ...(avatarUrl === undefined ? {} : { avatarUrl }),
    ...(sessionName === undefined ? {} : { sessionName }),
  };
}
