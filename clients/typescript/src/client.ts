/** The client: the object that an application creates. */
import { ChatHandle, type SendOptions } from "./chat_handle.js";
import type { WebSocketConstructor } from "./connection.js";
import { CursorKeeper } from "./cursor_keeper.js";
import type { MessageListener } from "./delivery.js";
import { type Draft, type Receipt, type StoredDraft, messageOf, newId } from "./draft.js";
import { endpointOf } from "./endpoint.js";
import { HeartlineError, RefusedError, closed } from "./error.js";
import { type Backlog, Inbox } from "./inbox.js";
import { Listeners, type Unsubscribe } from "./listeners.js";
import { MemoryStorage } from "./memory_storage.js";
import { type LockManagerLike, OutboxLock } from "./outbox_lock.js";
import { Page, type PageDocument, type PageWindow } from "./page.js";
import type { StopReason } from "./policy.js";
import { Presence } from "./presence.js";
import type {
  ChatId,
  DeviceId,
  ErrorFrame,
  ServerFrame,
  ServerFrameOf,
  UserId,
} from "./protocol.gen.js";
import { Pump } from "./pump.js";
import { Rest } from "./rest.js";
import { Sending } from "./sending.js";
import { Socket, type SocketState } from "./socket.js";
import type { Storage } from "./storage.js";
import { type TokenProvider, TokenSource } from "./token.js";
import { Typing } from "./typing.js";

/** Options of a client. */
export interface ClientOptions {
  /** The server, such as `https://chat.example.com`; several are tried in turn. */
  url: string | string[];
  /** A token, or a function that returns one. The function is called whenever a token is needed. */
  token: string | TokenProvider;
  /**
   * The id of this device or tab. A new connection with the same id replaces the older one. By
   * default each client has its own id.
   */
  device_id?: DeviceId;
  /** The storage of the outbox. The default is in memory and is lost with the page. */
  storage?: Storage;
  /**
   * Whether the storage also keeps the position in each chat, so that the next page continues
   * there.
   */
  keep_cursors?: boolean;
  /**
   * How much of a chat is delivered that the client does not know yet. Default: the unread
   * messages, at most 500.
   */
  backlog?: Backlog;
  /** The maximum number of pending messages; default 1000. */
  outbox_messages_max?: number;
  /** The WebSocket class to use. Node has one since version 22. */
  WebSocket?: WebSocketConstructor;
  fetch?: typeof fetch;
  locks?: LockManagerLike;
  window?: PageWindow;
  document?: PageDocument;
}

/** The messages that are not stored yet, of every tab that shares the storage. */
export interface Drafts {
  /**
   * The pending messages in order; after a reload also those of the earlier page. A message that
   * was just stored can be listed for a moment longer; compare its `client_message_id`.
   */
  list(): Promise<StoredDraft[]>;
  /** Calls the listener when a message is added or removed. */
  onChange(listener: () => void): Unsubscribe;
}

/** A client of one user. */
export class Client {
  /** Requests over REST: everything except live messages. */
  readonly rest: Rest;
  /** The presence of other users. */
  readonly presence: Presence;
  /** The pending messages. */
  readonly outbox: Drafts;
  /** The id of this device. */
  readonly device_id: DeviceId;
  readonly #tokens: TokenSource;
  readonly #socket: Socket;
  readonly #storage: Storage;
  readonly #cursors: CursorKeeper | undefined;
  readonly #inbox: Inbox;
  readonly #sending: Sending;
  readonly #typing = new Typing();
  readonly #pump: Pump;
  readonly #page: Page;
  readonly #onEvent = new Listeners<[string, unknown]>();
  readonly #onWarning = new Listeners<[RefusedError]>();
  #restored: Promise<void> | undefined;
  #established: ServerFrameOf<"connection_established"> | undefined;

  constructor(options: ClientOptions) {
    const endpoints = [options.url].flat().map(endpointOf);
    if (endpoints.length === 0) throw new TypeError("options.url must name at least one server");
    const tokens = new TokenSource(options.token);
    this.#tokens = tokens;
    this.device_id = checkedDevice(options.device_id ?? newId());
    this.rest = new Rest(
      endpoints.map(({ rest_url }) => rest_url),
      tokens,
      options.fetch ?? ((...request) => fetch(...request)),
    );
    const storage = options.storage ?? new MemoryStorage();
    this.outbox = {
      list: () => storage.draftsAfter(0),
      onChange: (listener) => storage.onChange(listener),
    };
    this.#socket = new Socket({
      WebSocket: options.WebSocket ?? defaultWebSocket(),
      urls: endpoints.map(({ socket_url }) => socket_url),
      device_id: this.device_id,
      tokens,
      objection: ({ user_id }) =>
        storage.user_id === undefined || storage.user_id === user_id
          ? undefined
          : "storage_of_another_user",
    });
    this.#storage = storage;
    this.#cursors = options.keep_cursors ? new CursorKeeper(this.#storage) : undefined;
    const kick = () => this.#pump.kick();
    this.presence = new Presence(kick);
    this.#inbox = new Inbox({
      backlog: options.backlog ?? { unread_max: 500 },
      unansweredAbove: (chat_id) => this.#sending.unansweredAbove(chat_id),
      kick,
      cursorMoved: (chat_id, sequence) => this.#cursors?.moved(chat_id, sequence),
    });
    this.#sending = new Sending({
      storage: this.#storage,
      lock: new OutboxLock(
        this.#storage,
        options.locks ?? defaultLocks(),
        () => this.#sending.isAwaited && this.#page.isVisible,
      ),
      draftsMax: options.outbox_messages_max ?? 1000,
      highestSeen: (chat_id) => this.#inbox.highestSeen(chat_id),
      kick,
    });
    const { manifest, sync, receipts } = this.#inbox;
    const others = [this.#typing, manifest, sync, this.presence.watching, receipts];
    this.#pump = new Pump(this.#socket, this.#sending, others);
    this.#page = new Page(
      {
        wake: () => this.retryNow(),
        sleep: () => this.#sleep(),
        offline: () => this.#socket.offline(),
      },
      options.window,
      options.document,
    );
    this.#socket.onEstablished.add((frame) => this.#onEstablished(frame));
    this.#socket.onFrame.add((frame) => this.#onFrame(frame));
    this.#socket.onEnded.add(() => this.#onEnded());
  }

  /** The connection state. */
  get state(): SocketState {
    return this.#socket.state;
  }

  /** Why the client has stopped, if it has. */
  get stop_reason(): StopReason | undefined {
    return this.#socket.stop_reason;
  }

  /**
   * The error of the last attempt to connect: the error that the token provider threw, or the
   * runtime's. A browser reports nothing about a server that does not answer.
   */
  get last_error(): unknown {
    return this.#socket.last_error;
  }

  /**
   * The time of the next attempt to connect, in milliseconds since the epoch; undefined during an
   * attempt, or when none is needed.
   */
  get next_attempt_at(): number | undefined {
    return this.#socket.next_attempt_at;
  }

  /** The user's id, known after the first connection. */
  get user_id(): UserId | undefined {
    return this.#established?.user_id;
  }

  /** The `connection_established` frame of the present or the last connection. */
  get connection(): ServerFrameOf<"connection_established"> | undefined {
    return this.#established;
  }

  /**
   * Connects, and stays connected until `close`. Resolves with the first connection; rejects with
   * `STOPPED` or `CLOSED` if the client gives up.
   */
  connect(): Promise<void> {
    const connected = this.#whenConnected();
    // Prevents an unhandled rejection: the application need not await the promise.
    connected.catch(() => {});
    return connected;
  }

  /**
   * Starts the next attempt at once, for a button in the page. A delay that the server requested
   * still applies, and attempts are at least a second apart.
   */
  retryNow(): void {
    this.#socket.wake();
    this.#sending.look();
  }

  /**
   * Requests a new token and sends it to the server, for example after the user's rights changed.
   * Requests made after the promise resolves use the new token. Rejects if the provider rejects.
   */
  async refreshToken(): Promise<void> {
    this.#socket.offer(await this.#tokens.get("refresh"));
  }

  /** Acknowledges the delivered messages and closes the client for good. */
  async close(): Promise<void> {
    this.#sendReceipts();
    this.#page.close();
    this.#pump.stop();
    this.#inbox.delivery.clear();
    this.#socket.close();
    const released = this.#sending.close();
    this.#typing.ended();
    this.presence.close();
    await released;
    await this.#cursors?.flush();
    this.#storage.close();
  }

  /** Returns a handle to a chat. */
  chat(chat_id: ChatId): ChatHandle {
    return new ChatHandle(chat_id, {
      send: (content, options) => this.#send(chat_id, content, options),
      typing: (is_typing) => this.#sayTyping(chat_id, is_typing),
      onMessage: (listener) => this.#inbox.delivery.listen(chat_id, listener),
      onTyping: (listener) => this.onTyping(listener),
      history: (page) => this.rest.listMessages(chat_id, page),
    });
  }

  /**
   * Calls the listener with every message of every chat, once and in order per chat, including the
   * user's own. A chat without any listener is paused until one is added.
   */
  onMessage(listener: MessageListener): Unsubscribe {
    return this.#inbox.delivery.listen(undefined, listener);
  }

  /** Calls the listener when a chat is created or renamed, or its members change. */
  onChatChanged(listener: (change: ServerFrameOf<"chat_changed">) => void): Unsubscribe {
    return this.#inbox.onChatChanged.add(listener);
  }

  /** Calls the listener when a user starts or stops typing. */
  onTyping(listener: (chat_id: ChatId, user_id: UserId, is_typing: boolean) => void): Unsubscribe {
    return this.#typing.onTyping.add(listener);
  }

  /** Calls the listener with pushes from the application's own back end. */
  onEvent(listener: (name: string, data: unknown) => void): Unsubscribe {
    return this.#onEvent.add(listener);
  }

  /** Calls the listener when the connection state changes. */
  onState(listener: (state: SocketState) => void): Unsubscribe {
    return this.#socket.onState.add(listener);
  }

  /**
   * Calls the listener with the time of the next attempt, and with undefined when the attempt
   * starts.
   */
  onNextAttempt(listener: (next_attempt_at: number | undefined) => void): Unsubscribe {
    return this.#socket.onNextAttempt.add(listener);
  }

  /** Calls the listener once per connection, when every chat has caught up with its head. */
  onSynced(listener: () => void): Unsubscribe {
    return this.#inbox.onSynced.add(listener);
  }

  /**
   * Calls the listener when a message was definitely not stored and no `send` in this page awaits
   * it: the message is from an earlier page, or from another tab, whose own `send` rejects.
   */
  onRefused(listener: (draft: Draft, error: RefusedError) => void): Unsubscribe {
    return this.#sending.onRefused.add(listener);
  }

  /**
   * Calls the listener with warnings that the server sends without a request, such as
   * `SLOW_CONSUMER`.
   */
  onWarning(listener: (warning: RefusedError) => void): Unsubscribe {
    return this.#onWarning.add(listener);
  }

  async #whenConnected(): Promise<void> {
    this.#restored ??= this.#restore();
    await this.#restored;
    await new Promise<void>((resolve, reject) => {
      const settle = (state: SocketState) => {
        if (state === "connected") resolve();
        else if (state === "stopped") reject(stopped(this.stop_reason));
        else if (state === "closed") reject(closed());
        else return false;
        return true;
      };
      this.#socket.connect();
      if (settle(this.state)) return;
      const remove = this.onState((state) => {
        if (settle(state)) remove();
      });
    });
  }

  async #restore(): Promise<void> {
    if (this.#cursors === undefined) return;
    // Without cursors the application receives some messages again, which is better than losing
    // some.
    this.#inbox.restore(await this.#storage.cursors().catch(() => []));
  }

  #send(chat_id: ChatId, content: string, options: SendOptions): Promise<Receipt> {
    const client_message_id = options.client_message_id ?? newId();
    const { content_type } = options;
    const draft: Draft = { chat_id, client_message_id, content };
    if (content_type !== undefined) draft.content_type = content_type;
    this.#typing.sent(chat_id);
    return this.#sending.send(draft);
  }

  /** Without a connection there is no server to send the acknowledgements to. */
  #sayTyping(chat_id: ChatId, is_typing: boolean): void {
    if (!this.#socket.isOpen) return;
    this.#typing.say(chat_id, is_typing, performance.now());
    this.#pump.kick();
  }

  #sleep(): void {
    this.#sendReceipts();
    this.#socket.sleep();
  }

  #sendReceipts(): void {
    if (!this.#socket.isOpen) return;
    for (const ack of this.#inbox.receipts.takeAll()) this.#socket.send(ack);
  }

  #onEstablished(frame: ServerFrameOf<"connection_established">): void {
    const { user_id, limits } = frame;
    this.#established = frame;
    this.#inbox.established(user_id, limits, performance.now());
    this.#sending.established(limits);
    this.presence.established(limits);
    this.#pump.established(limits);
  }

  #onEnded(): void {
    this.#sending.ended();
    this.#inbox.ended();
    this.presence.ended();
    this.#typing.ended();
  }

  #onFrame(frame: ServerFrame): void {
    const now = performance.now();
    switch (frame.type) {
      case "message_ack": {
        const draft = this.#sending.acked(frame);
        if (draft !== undefined && this.user_id !== undefined) {
          this.#inbox.take(messageOf(draft, frame, this.user_id), now);
        } else {
          this.#inbox.saw(frame.chat_id, frame.sequence, now);
        }
        break;
      }
      case "message":
        this.#typing.heard(frame.chat_id, frame.sender_id, false);
        break;
      case "typing_indicator":
        this.#typing.heard(frame.chat_id, frame.user_id, frame.is_typing);
        break;
      case "event":
        this.#onEvent.tell(frame.name, frame.data);
        break;
      case "error":
        this.#onError(frame, now);
        break;
      case "token_refreshed":
        this.#sending.tokenRefreshed();
    }
    this.#inbox.onFrame(frame, now);
    this.presence.onFrame(frame);
    this.#pump.kick();
  }

  #onError(error: ErrorFrame, now: number): void {
    if (error.request_id === undefined) {
      this.#onWarning.tell(new RefusedError(error));
      return;
    }
    const chat_id = this.#sending.refused(error, now);
    if (chat_id !== undefined) this.#inbox.review(chat_id, now);
    else if (!this.#inbox.refused(error, now)) this.presence.refused(error, now);
  }
}

function stopped(reason: StopReason | undefined): HeartlineError {
  return new HeartlineError("STOPPED", `the client has stopped: ${reason}`);
}

/**
 * The device id is part of the list of subprotocols, in which fewer characters are legal than
 * elsewhere.
 */
function checkedDevice(device_id: DeviceId): DeviceId {
  if (/^[\w.|+-]{1,64}$/.test(device_id)) return device_id;
  throw new TypeError(`device_id "${device_id}" must have 1 to 64 of A-Z a-z 0-9 _ . | + -`);
}

function defaultWebSocket(): WebSocketConstructor {
  if (typeof globalThis.WebSocket === "function") return globalThis.WebSocket;
  throw new TypeError("this runtime has no WebSocket: set options.WebSocket, such as that of `ws`");
}

function defaultLocks(): LockManagerLike | undefined {
  return globalThis.navigator?.locks as LockManagerLike | undefined;
}
