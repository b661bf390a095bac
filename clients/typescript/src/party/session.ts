/** One session, from the first attempt to join it to its end. */

import { BackOff } from "../back_off.js";
import type { WebSocketConstructor } from "../connection.js";
import { Page, type PageDocument, type PageWindow } from "../page.js";
import type { TokenNeed } from "../token.js";
import { type Ending, PartyConnection } from "./connection.js";
import { END, JOIN, LEAVE, type Request, UPDATE_USERNAME } from "./documents.js";
import type { Edit } from "./edit.js";
import { EditSender } from "./edit_sender.js";
import { PartyError } from "./error.js";
import type { SessionUser } from "./events.js";
import { EMPTY } from "./queue.js";
import { QueueSync } from "./queue_sync.js";
import type { Memory, RememberedSession } from "./remembered.js";
import { RosterSync } from "./roster_sync.js";
import { Waker } from "./waker.js";
import type { PartyState, PartyStatus } from "./state.js";

/** The settings of a session. */
export interface SessionSettings {
  /** The URLs of the nodes; each attempt uses the next one. */
  readonly urls: readonly string[];
  readonly token: (need: TokenNeed) => Promise<string | null>;
  readonly WebSocket: WebSocketConstructor;
  readonly window: PageWindow | undefined;
  readonly document: PageDocument | undefined;
  readonly memory: Memory;
  readonly editTimeoutMs: number;
  readonly verifyAfterMs: number;
  readonly openTimeoutMs: number;
  readonly silenceMs: number;
}

/** The time limit for requests that are not about the queue. */
const ANSWER_TIMEOUT_MS = 30_000;

/** The time limit of a token provider. */
const TOKEN_TIMEOUT_MS = 30_000;

/** The time limit for leaving. */
const LEAVE_TIMEOUT_MS = 3000;

/**
 * The delay after the end of a stream before its reason is requested: the reason may arrive later.
 */
const REJOIN_AFTER_MS = 300;

/** A drained node disconnects all members at once; they reconnect spread over this time. */
const SPREAD_MS = 500;

/** The shortest interval between attempts. */
const ATTEMPT_INTERVAL_MIN_MS = 1000;

/** A session. */
export class PartySession {
  /** Settles when the queue has arrived for the first time, or never will. */
  readonly joined: Promise<void>;
  readonly sync: QueueSync;
  readonly #settings: SessionSettings;
  readonly #changed: () => void;
  readonly #sender: EditSender;
  readonly #people: RosterSync;
  readonly #backOff = new BackOff();
  readonly #waker = new Waker();
  readonly #page: Page;
  #known: RememberedSession;
  #status: PartyStatus = "joining";
  #error: PartyError | null = null;
  #ended: PartyState["ended"] = null;
  #connection: PartyConnection | null = null;
  #clientId: string | null = null;
  #boardPath: string | null = null;
  #name: string | null = null;
  #attempts = 0;
  /** The time of the last attempt to connect or to join. */
  #attemptedAt = Number.NEGATIVE_INFINITY;
  /** The token that was rejected, or has expired, until one is accepted. */
  #refusedToken: string | null | undefined;
  /** Ends the wait for the token provider. */
  #patience: ReturnType<typeof setTimeout> | undefined;
  #isOver = false;
  /** The connection on which it joins again. */
  #rejoining: PartyConnection | null = null;
  #resolveJoined: () => void = () => {};
  #rejectJoined: (error: PartyError) => void = () => {};

  constructor(settings: SessionSettings, known: RememberedSession, changed: () => void) {
    this.#settings = settings;
    this.#known = known;
    this.#changed = changed;
    this.joined = new Promise((resolve, reject) => {
      this.#resolveJoined = resolve;
      this.#rejectJoined = reject;
    });
    // Prevents an unhandled rejection: the state reports the failure as well.
    this.joined.catch(() => {});
    const removed = () => this.#streamEnded();
    this.#sender = new EditSender(settings.editTimeoutMs, {
      // An answer may arrive after the event of its edit.
      changed: () => this.#queueChanged(false),
      removed,
    });
    this.sync = new QueueSync(known.sessionId, settings.verifyAfterMs, {
      applied: (event) => this.#sender.confirm(event),
      changed: (isWhole) => this.#queueChanged(isWhole),
      ended: removed,
    });
    this.#people = new RosterSync(known.sessionId, {
      changed: () => this.#show(),
      over: (reason, newPath) => this.#end(reason, newPath),
      ended: removed,
    });
    const wake = () => {
      this.#connection?.probe();
      this.#waker.wake();
    };
    this.#page = new Page({ wake, sleep() {}, offline() {} }, settings.window, settings.document);
    settings.memory.remember(known);
    // An unexpected error ends the session as well, instead of leaving it joining forever.
    this.#run().catch((error) => this.#fail(new PartyError("INTERNAL_ERROR", String(error))));
  }

  /** The current state. */
  state(): PartyState {
    const queue = this.sync.queue;
    const { members, leaderId } = this.#people.roster;
    const shown = this.#sender.pending.shown(queue?.contents ?? this.#known.seed ?? EMPTY);
    return Object.freeze({
      status: this.#status,
      sessionId: this.#known.sessionId,
      name: this.#name,
      boardPath: this.#boardPath ?? this.#known.boardPath,
      clientId: this.#clientId,
      isLeader: leaderId !== null && leaderId === this.#clientId,
      leaderId,
      members,
      queue: shown.queue,
      current: shown.current,
      sequence: queue?.sequence ?? null,
      incarnation: queue?.incarnation ?? null,
      pendingEdits: this.#sender.pending.size,
      error: this.#error,
      ended: this.#ended,
    });
  }

  /** Makes an edit. */
  async edit(edit: Edit): Promise<void> {
    if (this.#isOver) {
      throw this.#overError();
    }
    await this.#sender.edit(edit);
  }

  /** Renames this member, now and after a reconnect. */
  async rename(username: string, avatarUrl?: string): Promise<void> {
    const variables = { username, avatarUrl: avatarUrl ?? null };
    await this.#ask({ query: UPDATE_USERNAME, variables });
    this.#remember({ ...this.#known, username, ...(avatarUrl === undefined ? {} : { avatarUrl }) });
  }

  /** Leaves for good. Without a connection the server notices by itself. */
  async leave(): Promise<void> {
    const connection = this.#connection;
    const isLive = !this.#isOver;
    this.#finish("left", new PartyError("NOT_IN_A_SESSION", "The session was left"), connection);
    if (isLive && connection !== null) {
      await connection.run({ query: LEAVE, variables: {} }, LEAVE_TIMEOUT_MS).catch(() => {});
      connection.close();
    }
  }

  /** Ends the session for everybody. Only its creator and its leader may. */
  async end(): Promise<void> {
    try {
      await this.#ask({ query: END, variables: { sessionId: this.#known.sessionId } });
    } catch (error) {
      // The stream may report the end before the answer arrives.
      if (this.#status !== "ended") {
        throw error;
      }
    }
    this.#end("Session ended", null);
  }

  /** Closes without leaving: `resume` soon after continues as the same member. */
  close(): void {
    this.#finish("idle", new PartyError("NOT_IN_A_SESSION", "The party was closed"));
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const ending = await this.#converse();
      this.#connection = null;
      this.sync.stop();
      this.#people.stop();
      this.#sender.stop();
      if (this.#isOver) {
        return;
      }
      if (isFinal(ending)) {
        return this.#fail(new PartyError("UNAUTHORIZED", ending.reason || "The token was rejected"));
      }
      // A client that was never admitted was rejected rather than drained, perhaps for long.
      const isSentAway = this.#status === "live" && (ending.code === 1012 || ending.code === 4403);
      if (this.#status === "live") {
        this.#status = "reconnecting";
        this.#show();
      }
      await this.#pause(isSentAway ? Math.random() * SPREAD_MS : this.#backOff.next(), false);
    }
  }

  /** Waits for the next attempt. If `stands`, a resumed page does not shorten the wait. */
  async #pause(milliseconds: number, stands: boolean): Promise<void> {
    const since = performance.now() - this.#attemptedAt;
    const soonest = Math.max(stands ? milliseconds : 0, ATTEMPT_INTERVAL_MIN_MS - since);
    await this.#waker.sleep(Math.max(milliseconds, soonest), soonest);
  }

  /** Runs one connection. */
  async #converse(): Promise<Ending> {
    let opened: PartyConnection | Ending;
    try {
      opened = await this.#open();
    } catch (error) {
      // The token provider failed, for now or for good.
      const isFinal = (error as { code?: unknown }).code === "TOKEN_ENDED";
      return { code: isFinal ? 4401 : 1006, reason: String(error) };
    }
    if (!(opened instanceof PartyConnection)) {
      return opened;
    }
    this.#connection = opened;
    // A call that finishes during the join also ends the connection, and may still need it.
    if (this.#isOver || (!(await this.#join(opened)) && !this.#isOver)) {
      opened.close();
    }
    const ending = await opened.closed;
    // The server closes with this code when the token has expired.
    if (ending.code === 4403 && opened.token !== null) {
      this.#refusedToken = opened.token;
    }
    return ending;
  }

  async #open(): Promise<PartyConnection | Ending> {
    this.#attemptedAt = performance.now();
    const { urls, WebSocket, openTimeoutMs, silenceMs } = this.#settings;
    const need = this.#refusedToken === undefined ? "connect" : "refused";
    const token = await this.#token(need);
    if (this.#isOver) {
      return { code: 1000, reason: "done" };
    }
    if (token === this.#refusedToken) {
      return { code: 4401, reason: "The token was rejected" };
    }
    const url = urls[this.#attempts % urls.length] as string;
    this.#attempts += 1;
    const settings = { url, token, WebSocket, openTimeoutMs, silenceMs };
    const opened = await PartyConnection.open(settings);
    if (opened instanceof PartyConnection) {
      this.#refusedToken = undefined;
    } else if (opened.code === 4401 && this.#refusedToken === undefined) {
      // Another token may be accepted. If that is rejected too, the client gives up.
      this.#refusedToken = token;
      return { code: 1006, reason: opened.reason };
    }
    return opened;
  }

  /** Calls the token provider, with a time limit. */
  #token(need: TokenNeed): Promise<string | null> {
    return new Promise((resolve, reject) => {
      const late = new PartyError("TIMEOUT", "The token provider did not answer in time");
      const patience = setTimeout(() => reject(late), TOKEN_TIMEOUT_MS);
      this.#patience = patience;
      const asked = this.#settings.token(need).finally(() => clearTimeout(patience));
      asked.then(resolve, reject);
    });
  }

  /**
   * Joins and subscribes. Returns false if that needs another connection, or the session is over.
   */
  async #join(connection: PartyConnection): Promise<boolean> {
    const failures = new BackOff();
    while (!this.#isOver && connection === this.#connection) {
      const answer = await this.#tryToJoin(connection);
      // The stored session may be another one by now.
      if (this.#isOver) {
        return false;
      }
      if (!(answer instanceof PartyError)) {
        this.#enter(connection, answer);
        return true;
      }
      if (answer.saysEnded) {
        this.#end(answer.message, null);
      } else if (answer.code === "CONFLICT") {
        // Another client has resumed as this member, so this client joins as a new member.
        const { resumeToken: _, ...other } = this.#known;
        this.#remember(other);
        return false;
      } else if (answer.code === "CONNECTION_LOST" || answer.code === "TIMEOUT") {
        return false;
      } else if (!answer.isRetryable) {
        this.#settings.memory.forget();
        this.#fail(answer);
      } else {
        const seconds = answer.retryAfterSeconds ?? 0;
        await this.#pause(failures.afterRefusal(seconds), seconds > 0);
      }
    }
    return false;
  }

  async #tryToJoin(connection: PartyConnection): Promise<Joined | PartyError> {
    this.#attemptedAt = performance.now();
    const { seed, ...variables } = this.#known;
    const seeding = seed && { initialQueue: seed.queue, initialCurrentClimb: seed.current };
    const request = { query: JOIN, variables: { ...variables, ...seeding } };
    try {
      const answer = await connection.run<{ joinSession: Joined }>(request, ANSWER_TIMEOUT_MS);
      return answer.joinSession;
    } catch (error) {
      return error as PartyError;
    }
  }

  #enter(connection: PartyConnection, joined: Joined): void {
    const { resumeToken: _, ...known } = this.#known;
    const { name, boardPath, clientId, resumeToken } = joined;
    // The initial queue is shown until the stream starts. A server that has the session ignores it.
    this.#remember(resumeToken ? { ...known, resumeToken } : known);
    this.#name = name;
    this.#boardPath = boardPath;
    this.#clientId = clientId;
    this.#backOff.reset();
    this.#people.roster.set(joined.users);
    this.#people.begin(connection);
    this.sync.begin(connection);
    this.#sender.begin(connection);
    this.#show();
  }

  #queueChanged(isWhole: boolean): void {
    this.#sender.settle(this.sync.queue);
    if (isWhole && this.#status !== "live") {
      const { seed: _, ...known } = this.#known;
      this.#remember(known);
      this.#status = "live";
      this.#resolveJoined();
    }
    this.#show();
  }

  /**
   * A stream has ended, but not the connection: joins again, or learns that the session is gone.
   */
  #streamEnded(): void {
    const connection = this.#connection;
    if (this.#isOver || connection === null || connection === this.#rejoining) {
      return;
    }
    this.#rejoining = connection;
    this.#sender.stop();
    void this.#joinAgain(connection);
  }

  async #joinAgain(connection: PartyConnection): Promise<void> {
    await this.#pause(REJOIN_AFTER_MS, true);
    if (connection !== this.#connection || this.#isOver) {
      return;
    }
    const isIn = await this.#join(connection);
    if (this.#rejoining === connection) {
      this.#rejoining = null;
    }
    if (!isIn && !this.#isOver) {
      connection.close();
    }
  }

  async #ask(request: Request): Promise<void> {
    if (this.#isOver) {
      throw this.#overError();
    }
    if (this.#connection === null || this.#status !== "live") {
      throw new PartyError("CONNECTION_LOST", "The client is not connected to the server");
    }
    await this.#connection.run(request, ANSWER_TIMEOUT_MS);
  }

  #end(reason: string, newPath: string | null): void {
    if (!this.#isOver) {
      this.#ended = { reason, newPath };
      this.#finish("ended", new PartyError("SESSION_ENDED", "The session has ended"));
    }
  }

  #fail(error: PartyError): void {
    this.#error = error;
    this.#finish("failed", error);
  }

  /** Ends this session for good. A connection that is still needed is left open. */
  #finish(status: PartyStatus, error: PartyError, needed: PartyConnection | null = null): void {
    if (this.#isOver) {
      return;
    }
    this.#isOver = true;
    this.#status = status;
    if (status === "ended" || status === "left") {
      this.#settings.memory.forget();
    }
    this.sync.stop();
    this.#people.stop();
    this.#sender.fail(error);
    this.#waker.end();
    clearTimeout(this.#patience);
    this.#page.close();
    if (this.#connection !== needed) {
      this.#connection?.close();
    }
    this.#rejectJoined(error);
    this.#show();
  }

  #overError(): PartyError {
    return this.#status === "ended"
      ? new PartyError("SESSION_ENDED", "The session has ended")
      : (this.#error ?? new PartyError("NOT_IN_A_SESSION", "The client is in no session"));
  }

  #remember(known: RememberedSession): void {
    this.#known = known;
    if (!this.#isOver) {
      this.#settings.memory.remember(known);
    }
  }

  #show(): void {
    this.#changed();
  }
}

interface Joined {
  readonly name: string | null;
  readonly boardPath: string;
  readonly clientId: string;
  readonly resumeToken: string | null;
  readonly users: readonly SessionUser[];
}

/** Whether an ending makes a retry useless. */
function isFinal({ code, reason }: Ending): boolean {
  return code === 4401 || code === 4406 || (code === 4403 && reason === "session_ended");
}
