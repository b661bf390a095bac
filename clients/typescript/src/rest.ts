/** Requests over HTTP: everything except live messages. */
import { HeartlineError, RefusedError } from "./error.js";
import {
  type Chat,
  type ChatId,
  type ChatMember,
  type Contact,
  type CreateChat,
  type Delivery,
  type ErrorBody,
  type ErrorCode,
  type ListedChat,
  type Message,
  type Page,
  type Presence,
  RETRYABLE_ERRORS,
  type Role,
  type SendMessageBody,
  type SentMessage,
  type User,
  type UserId,
  type Visibility,
  type VisibilitySetting,
} from "./protocol.gen.js";
import type { TokenSource } from "./token.js";

/** The time limit of a request. */
const TIMEOUT_MS = 15_000;

/** A page of a list. */
export interface PageOptions {
  /** The maximum number of items: default 50, at most 200. */
  limit?: number;
  /** The `next_cursor` of the previous page. */
  cursor?: string;
}

/** A page of a chat's messages, in ascending order; by default the newest. */
export interface HistoryOptions {
  before_sequence?: number;
  after_sequence?: number;
  limit?: number;
}

/** Parameters of a request besides its path. */
interface RequestOptions {
  query?: object;
  body?: unknown;
  headers?: Record<string, string>;
}

/** The routes that a client uses. Errors of the server reject with a `RefusedError`. */
export class Rest {
  readonly #urls: string[];
  readonly #tokens: TokenSource;
  readonly #fetch: typeof fetch;
  /** The server that answered last is used first. */
  #urlIndex = 0;

  constructor(urls: string[], tokens: TokenSource, fetcher: typeof fetch) {
    this.#urls = urls;
    this.#tokens = tokens;
    this.#fetch = fetcher;
  }

  /**
   * Creates a chat, or returns the existing direct chat of the two users. Requests with the same
   * key within 24 hours create one chat.
   */
  createChat(chat: CreateChat, idempotency_key?: string): Promise<Chat> {
    const headers = idempotency_key === undefined ? {} : { "Idempotency-Key": idempotency_key };
    return this.request("POST", "/chats", { body: chat, headers });
  }

  /** The user's chats with head, watermark and last message. */
  listChats(page: PageOptions = {}): Promise<Page<ListedChat>> {
    return this.request("GET", "/chats", { query: page });
  }

  getChat(chat_id: ChatId): Promise<Chat> {
    return this.request("GET", `/chats/${chat_id}`);
  }

  /** Renames a group; undefined removes the name. */
  renameChat(chat_id: ChatId, name: string | null): Promise<Chat> {
    return this.request("PATCH", `/chats/${chat_id}`, { body: { name } });
  }

  /** Deletes a chat with its messages. */
  deleteChat(chat_id: ChatId): Promise<void> {
    return this.request("DELETE", `/chats/${chat_id}`);
  }

  addMember(chat_id: ChatId, user_id: UserId, role: Role = "member"): Promise<ChatMember> {
    return this.request("POST", `/chats/${chat_id}/members`, { body: { user_id, role } });
  }

  setRole(chat_id: ChatId, user_id: UserId, role: Role): Promise<ChatMember> {
    return this.request("PATCH", `/chats/${chat_id}/members/${user(user_id)}`, { body: { role } });
  }

  removeMember(chat_id: ChatId, user_id: UserId): Promise<void> {
    return this.request("DELETE", `/chats/${chat_id}/members/${user(user_id)}`);
  }

  leaveChat(chat_id: ChatId): Promise<void> {
    return this.request("POST", `/chats/${chat_id}/leave`);
  }

  /** A page of a chat's messages. */
  listMessages(chat_id: ChatId, page: HistoryOptions = {}): Promise<Page<Message>> {
    return this.request("GET", `/chats/${chat_id}/messages`, { query: page });
  }

  /** Sends a message without the socket and the outbox: retry with the same `client_message_id`. */
  sendMessage(chat_id: ChatId, message: SendMessageBody): Promise<SentMessage> {
    return this.request("POST", `/chats/${chat_id}/messages`, { body: message });
  }

  /** The watermark of each member of the chat, as far as this user may see it. */
  listDelivery(chat_id: ChatId, page: PageOptions = {}): Promise<Page<Delivery>> {
    return this.request("GET", `/chats/${chat_id}/delivery`, { query: page });
  }

  /** The user's own profile. */
  getMe(): Promise<User> {
    return this.request("GET", "/users/me");
  }

  updateMe(display_name: string | null): Promise<User> {
    return this.request("PATCH", "/users/me", { body: { display_name } });
  }

  getUser(user_id: UserId): Promise<User> {
    return this.request("GET", `/users/${user(user_id)}`);
  }

  listContacts(page: PageOptions = {}): Promise<Page<Contact>> {
    return this.request("GET", "/contacts", { query: page });
  }

  /** Adds a contact. Two users become contacts once each has added the other. */
  putContact(user_id: UserId): Promise<void> {
    return this.request("PUT", `/contacts/${user(user_id)}`);
  }

  removeContact(user_id: UserId): Promise<void> {
    return this.request("DELETE", `/contacts/${user(user_id)}`);
  }

  /** Sets who may see whether this user is online. */
  getVisibility(): Promise<VisibilitySetting> {
    return this.request("GET", "/presence/visibility");
  }

  setVisibility(visibility: Visibility): Promise<VisibilitySetting> {
    return this.request("PUT", "/presence/visibility", { body: { visibility } });
  }

  getPresence(user_id: UserId): Promise<Presence> {
    return this.request("GET", `/presence/${user(user_id)}`);
  }

  /** The presence of up to 500 users, read once. */
  queryPresence(user_ids: UserId[]): Promise<Page<Presence>> {
    return this.request("POST", "/presence/query", { body: { user_ids } });
  }

  /**
   * Sends any request under `/v1`. A rejected token is replaced once; if a server cannot be
   * reached, the next URL is used.
   */
  async request<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const answered = await this.#ask(method, path, options, await this.#tokens.current());
    if (answered.answer.status !== 401) return read<T>(answered);
    const token = await this.#tokens.get("refused");
    return read<T>(await this.#ask(method, path, options, token));
  }

  async #ask(
    method: string,
    path: string,
    { query, body, headers }: RequestOptions,
    token: string,
  ): Promise<Answered> {
    const defined = Object.entries(query ?? {}).filter(([, value]) => value !== undefined);
    const search = `${new URLSearchParams(defined.map(([name, value]) => [name, `${value}`]))}`;
    const type: Record<string, string> =
      body === undefined ? {} : { "Content-Type": "application/json" };
    let failure: unknown;
    for (let attempt = 0; attempt < this.#urls.length; attempt += 1) {
      const url = `${this.#urls[this.#urlIndex]}${path}${search && `?${search}`}`;
      try {
        const answer = await this.#fetch(url, {
          method,
          headers: { Authorization: `Bearer ${token}`, ...type, ...headers },
          body: body === undefined ? null : JSON.stringify(body),
          signal: AbortSignal.timeout(TIMEOUT_MS),
        });
        return { answer, text: await answer.text() };
      } catch (error) {
        failure = error;
        this.#urlIndex = (this.#urlIndex + 1) % this.#urls.length;
        // The request may have succeeded: only safe requests are sent to another server.
        if (method !== "GET") break;
      }
    }
    const isLate = failure instanceof DOMException && failure.name === "TimeoutError";
    const message = isLate ? "the server did not answer in time" : "the server cannot be reached";
    throw new HeartlineError(isLate ? "TIMEOUT" : "UNREACHABLE", message, { cause: failure });
  }
}

/** An answer with its whole body. */
interface Answered {
  answer: Response;
  text: string;
}

/** User ids can contain characters that a path may not. */
function user(user_id: UserId): string {
  return encodeURIComponent(user_id);
}

function read<T>({ answer, text }: Answered): T {
  if (answer.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
  const { code, message, request_id, details } = errorIn(text, answer.status);
  const retryAfter = Number(answer.headers.get("Retry-After") ?? Number.NaN);
  const seconds = Number.isFinite(retryAfter) ? { retry_after_seconds: retryAfter } : {};
  const more = details === undefined ? {} : { details };
  const retryable = RETRYABLE_ERRORS.includes(code);
  const error = { code, message, request_id, retryable, ...seconds, ...more };
  throw new RefusedError(error, answer.status);
}

/** A proxy's error has another form than the server's. */
function errorIn(text: string, status: number): ErrorBody["error"] {
  try {
    const { error } = JSON.parse(text) as Partial<ErrorBody>;
    if (error?.code !== undefined) return error;
  } catch {
    // Not JSON at all.
  }
  const isTheirs = status >= 400 && status < 500;
  const code: ErrorCode = isTheirs ? "INVALID_MESSAGE" : "SERVICE_UNAVAILABLE";
  return { code, message: `the server answered with HTTP status ${status}`, request_id: "" };
}
