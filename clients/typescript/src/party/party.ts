/** The way into party sessions: queues that everybody in them edits. */

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

/** Gives tokens, or null for nobody in particular. That of the chat client serves as well. */
export type PartyTokenProvider = (need: TokenNeed) => string | null | Promise<string | null>;

/** What a party is made with. */
export interface PartyOptions {
  /** The server, such as `https://example.com`; several are tried in turn. */
  readonly url: string | readonly string[];
  /** A token, or what gives one before each connection. Without one this member is anonymous. */
  readonly token?: string | null | PartyTokenProvider;
  /** Where a reload finds the session: the tab's `sessionStorage` unless given; null: nowhere. */
  readonly storage?: PartyStorage | null;
  /** What makes sockets: the global `WebSocket` unless given. */
  readonly WebSocket?: WebSocketConstructor;
  /** How long an edit may wait for its answer before it is taken back. */
  readonly editTimeoutMs?: number;
  /** After how long without events the queue is compared with the server's. */
  readonly verifyAfterMs?: number;
  /** How long a connection may take to open. */
  readonly openTimeoutMs?: number;
  /** After how much silence the server is asked whether it is there. */
  readonly silenceMs?: number;
  readonly window?: PageWindow;
  readonly document?: PageDocument;
}

/** How a session is joined. */
export interface JoinOptions {
  /** The board, as a path of the site; that of whoever joins first counts. */
  readonly boardPath: string;
  readonly username?: string;
  readonly avatarUrl?: string;
  /** The session's name, from whoever joins first. */
  readonly sessionName?: string;
}

/** A queue that was local so far. */
export interface LocalQueue {
  readonly queue: readonly ClimbQueueItem[];
  readonly current?: ClimbQueueItem | null;
}

/** At most one session at a time, what is seen of it, and what can be done in it. */
export class Party {
  readonly #settings: SessionSettings;
  readonly #listeners = new Listeners<[]>();
  #session: PartySession | null = null;
  #state: PartyState | null = IDLE;

  constructor(options: PartyOptions) {
    const maker = options.WebSocket ?? (globalThis.WebSocket as WebSocketConstructor | undefined);
    if (maker === undefined) {
      throw new TypeError("There is no global WebSocket here: give one as options.WebSocket");
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

  /** How it is now: the same object until something changes. */
  get state(): PartyState {
    this.#state ??= this.#session?.state() ?? IDLE;
    return this.#state;
  }

  /** The session that a reload can go on with. */
  get remembered(): RememberedSession | null {
    return this.#settings.memory.recall();
  }

  /** How often missed events, and the whole queue, had to be asked for. */
  get repairs(): { readonly replays: number; readonly resyncs: number } {
    const { replays = 0, resyncs = 0 } = this.#session?.sync ?? {};
    return { replays, resyncs };
  }

  /** Calls the listener after every change, until the answered function is called. */
  readonly subscribe = (listener: () => void): Unsubscribe => this.#listeners.add(listener);

  /** Starts a new session with a queue that was local so far, which is kept until it is there. */
  async start(local: LocalQueue, options: JoinOptions): Promise<PartyState> {
    const seed = {
      queue: Object.freeze(local.queue.map(itemOf)),
      current: local.current ? itemOf(local.current) : null,
    };
    return await this.#enter({ sessionId: randomId(), ...known(options), seed });
  }

  /** Joins a session. Settles once its queue is there, however long that takes. */
  async join(sessionId: string, options: JoinOptions): Promise<PartyState> {
    return await this.#enter({ sessionId, ...known(options) });
  }

  /** Goes on with the remembered session, after a reload; null if there is none. */
  async resume(): Promise<PartyState | null> {
    const { remembered } = this;
    return remembered && (await this.#enter(remembered));
  }

  /** Leaves the session. One that failed or was closed is at least not gone on with. */
  async leave(): Promise<void> {
    this.#settings.memory.forget();
    await this.#session?.leave();
  }

  /** Ends the session for everybody, for good. Its creator and its leader may. */
  async end(): Promise<void> {
    await this.#current().end();
  }

  /** Closes the socket without leaving: whoever resumes soon is the same member. */
  close(): void {
    this.#session?.close();
  }

  /** Calls this member something else. */
  async rename(username: string, avatarUrl?: string): Promise<void> {
    await this.#current().rename(username, avatarUrl);
  }

  /** Puts an item into the queue, at the end unless a position is given. */
  async add(item: ClimbQueueItem, position: number | null = null): Promise<void> {
    await this.#edit({ name: "addQueueItem", item: itemOf(item), position });
  }

  /** Takes an item out of the queue. */
  async remove(uuid: string): Promise<void> {
    await this.#edit({ name: "removeQueueItem", uuid });
  }

  /** Moves an item. */
  async reorder(uuid: string, newIndex: number): Promise<void> {
    const oldIndex = Math.max(0, indexOf(this.state.queue, uuid));
    await this.#edit({ name: "reorderQueueItem", uuid, oldIndex, newIndex });
  }

  /** Makes a climb the current one, or none, and puts it into the queue if that is wanted. */
  async setCurrent(
    item: ClimbQueueItem | null,
    options: { readonly shouldAddToQueue?: boolean } = {},
  ): Promise<void> {
    const shouldAddToQueue = options.shouldAddToQueue ?? false;
    await this.#edit({ name: "setCurrentClimb", item: item && itemOf(item), shouldAddToQueue });
  }

  /** Mirrors the current climb, or no longer. */
  async mirror(mirrored: boolean): Promise<void> {
    await this.#edit({ name: "mirrorCurrentClimb", mirrored });
  }

  /** Puts an item in the place of another. */
  async replace(uuid: string, item: ClimbQueueItem): Promise<void> {
    await this.#edit({ name: "replaceQueueItem", uuid, item: itemOf(item) });
  }

  /** Puts a whole queue in the place of the present one, and of what others add meanwhile. */
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
    // One session is left while the other is entered; what is remembered is the other.
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
