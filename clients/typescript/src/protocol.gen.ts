// Written by the crate `heartline-protocol` from its own source; do not edit.
// HEARTLINE_GOLDEN=write cargo test -p heartline-protocol --test typescript

/** The WebSocket subprotocol. */
export const SUBPROTOCOL = "heartline.v1";
/** The version of the frames. */
export const PROTOCOL_VERSION = 1;
/** What content is when its sender does not say. */
export const DEFAULT_CONTENT_TYPE = "text/plain";
/** Bytes of UTF-8 in a message's content. */
export const CONTENT_BYTES_MAX = 4096;
/** Bytes of a message's content type. */
export const CONTENT_TYPE_BYTES_MAX = 64;
/** Users watched by one connection. */
export const PRESENCE_USERS_PER_CONNECTION_MAX = 1000;
/** Bytes of a token, checked before anything parses it. */
export const TOKEN_BYTES_MAX = 8192;
/** How far a pause is moved up or down at random, in percent. */
export const RECONNECT_JITTER_PERCENT = 20;
/** The first pause before a reconnect; each failure doubles it. */
export const RECONNECT_DELAY_MIN_MS = 1000;
/** The longest pause before a reconnect. */
export const RECONNECT_DELAY_MAX_MS = 16000;
/** How long requests in flight are waited for when the server closes. */
export const CLOSE_ANSWER_DEADLINE_MS = 5000;
/** The limits of a server that was not told others. */
export const DEFAULT_LIMITS: ClientLimits = {
  connections_per_user: 20,
  content_bytes: 4096,
  frame_burst: 100,
  frame_bytes: 65536,
  frame_rate: 50,
  inbound_requests: 100,
  outbox_bytes: 1048576,
  outbox_messages: 1000,
  presence_rate: 5,
  presence_users_per_connection: 1000,
  presence_users_per_frame: 100,
  send_burst: 20,
  send_rate: 10,
  slow_grace_ms: 5000,
  sync_page_messages: 500,
  typing_rate: 1,
};

/** `chat_` and a ULID, made by the server. */
export type ChatId = string;
/** `msg_` and a ULID, made by the server. */
export type MessageId = string;
/** `conn_`, a ULID and the user's shard, made by the server. */
export type ConnectionId = string;
/** The `sub` of a token: the application's id of a user. */
export type UserId = string;
/** One device or browser tab of a user. */
export type DeviceId = string;
/** One running server process. */
export type NodeId = string;
/** The id of a request, repeated in its reply. */
export type RequestId = string;
/** The sender's id of a message, the same in every retry. */
export type ClientMessageId = string;
/** ISO 8601 in UTC, with milliseconds. */
export type Timestamp = string;
/** A JWT. */
export type Token = string;

/** Why the server ends a connection. It is said in `connection_closing` before the Close frame. */
export type CloseReason =
  /** The client did not authenticate within the timeout. */
  | "auth_timeout"
  /** The token is not good; another one may be. */
  | "unauthorized"
  /** The token ran out and was not refreshed within the grace. */
  | "token_expired"
  /**
   * A newer connection of the same device took its place, or of the same user where only one is
   * allowed: coming back would take it again.
   */
  | "session_replaced"
  /** An operator, or the application's back end, ended it. */
  | "session_ended"
  /** Too many connections of this user or address. */
  | "connection_limit"
  /** Nothing was heard from the client for the heartbeat timeout. */
  | "heartbeat_timeout"
  /** The client did not read fast enough: come back and sync what was not written. */
  | "slow_consumer"
  /** The client went on sending faster than allowed. */
  | "rate_limited"
  /**
   * The client broke the protocol. The code tells how: 1002 framing, 1003 too many frames that are
   * no JSON object or came before `authenticate`, 1007 text that is not UTF-8, 1009 size.
   */
  | "protocol_error"
  /** The server is going away. */
  | "server_shutdown"
  /** The connection reached its age limit: nothing is wrong. */
  | "max_age"
  /** The server cannot serve this connection at the moment, or it asked for too much at once. */
  | "overloaded"
  /** A fault of the server's own. */
  | "internal_error";

/** What a client does after a close. */
export type Reconnect =
  /** Not by itself: ask the user. */
  | "never"
  /** With a token other than the refused one; after a second refusal in a row not by itself. */
  | "with_new_token"
  /** After the client's own growing pause. */
  | "back_off"
  /** After the `reconnect_delay_ms` that the server gave. */
  | "after_delay";

/** What went wrong with a request, and by that whether to try again. */
export type ErrorCode =
  /**
   * A malformed frame, field or request; `details.field` names the field. Sending it again does not
   * help.
   */
  | "INVALID_MESSAGE"
  /**
   * No valid token, or none yet: send `authenticate`, or `refresh_token` with a new one, then the
   * request again.
   */
  | "UNAUTHORIZED"
  /** The role or the scope forbids it, or the token is another user's or device's. */
  | "FORBIDDEN"
  /** Not a member of the chat, or there is no such chat: the two look the same. Forget the chat. */
  | "NOT_A_MEMBER"
  /** There is no such thing. */
  | "NOT_FOUND"
  /**
   * It contradicts what was said before: a `client_message_id` that was used for another message, a
   * second `authenticate`, a watch too many; `details.reason` may say which.
   */
  | "CONFLICT"
  /** Content, frame or body over its limit: make it smaller. */
  | "MESSAGE_TOO_LARGE"
  /**
   * Too many in too short a time: hold everything back for `retry_after_seconds`. Whoever goes on
   * regardless is closed.
   */
  | "RATE_LIMITED"
  /** A warning, not an answer: read faster within `details.grace_period_seconds` or be closed. */
  | "SLOW_CONSUMER"
  /** A queue is full and nothing was stored: send it again after `retry_after_seconds`. */
  | "SERVER_BUSY"
  /**
   * Something behind the server failed, or the connection is closing: send it again after
   * `retry_after_seconds`, a message with the same `client_message_id`. `details.outcome` says
   * whether it may have been stored.
   */
  | "SERVICE_UNAVAILABLE"
  /** The chat is stopped until an operator acts; nothing was stored. */
  | "CHAT_HALTED"
  /** A fault of the server's own: send it again after a pause. */
  | "INTERNAL_ERROR";

/** The limits that a client can run into, as `connection_established` announces them. */
export interface ClientLimits {
  /** Bytes of one frame to the server. */
  frame_bytes: number;
  /** Bytes of a message's content. */
  content_bytes: number;
  /** Frames that may wait for this connection before it is cut. */
  outbox_messages: number;
  /** Bytes that may wait for this connection before it is cut. */
  outbox_bytes: number;
  /** How long a slow consumer has to recover. */
  slow_grace_ms: number;
  /** Requests that may wait for their answer. */
  inbound_requests: number;
  /** Sustained `send_message` frames per second. */
  send_rate: number;
  /** `send_message` frames that may come at once. */
  send_burst: number;
  /** Sustained other frames per second. */
  frame_rate: number;
  /** Other frames that may come at once. */
  frame_burst: number;
  /** `typing` frames per second and chat. */
  typing_rate: number;
  /** Presence frames per second. */
  presence_rate: number;
  /** Users that one presence frame may name. */
  presence_users_per_frame: number;
  /** Users that one connection may watch. */
  presence_users_per_connection: number;
  /** Messages of the largest sync page. */
  sync_page_messages: number;
  /** Connections that one user may have. */
  connections_per_user: number;
}

/** The socket came without a token: send `authenticate` within the timeout. */
export interface AuthChallenge {
  /** Always 401. */
  code: number;
  /** How long there is to answer. */
  timeout_ms: number;
}

/** The answer to `heartbeat`. */
export interface HeartbeatAck {
  /** The server's clock. */
  server_time: Timestamp;
}

/** A page of a chat's messages: the answer to `sync_request`. */
export interface SyncResponse {
  /** The request. */
  request_id: RequestId;
  /** The chat. */
  chat_id: ChatId;
  /** In ascending order. Numbers that a page leaves out are no longer kept. */
  messages: Message[];
  /** Whether there is another page, after the last message of this one. */
  has_more: boolean;
  /** The chat's newest sequence. */
  head_sequence: number;
}

/** A page of the user's chats: the answer to `sync_manifest`. */
export interface SyncManifest {
  /** The request. */
  request_id: RequestId;
  /** The chats. */
  chats: ManifestChat[];
  /** The `page` to ask for next; absent on the last one. */
  next_page?: string;
}

/** A chat was made, renamed, or its members changed. */
export interface ChatChanged {
  /** The chat. */
  chat_id: ChatId;
  /** What happened. */
  change: ChatChange;
  /** The chat as it is now; absent when the receiver is no longer a member. */
  chat?: Chat;
}

/** The presence of the users of a `presence_subscribe`, or none after a `presence_unsubscribe`. */
export interface PresenceSnapshot {
  /** The request. */
  request_id: RequestId;
  /** Those whom the request asked for. */
  users: Presence[];
}

/** Somebody is typing. Clients forget it after 10 s, should its end never be told. */
export interface TypingIndicator {
  /** In which chat. */
  chat_id: ChatId;
  /** Who. */
  user_id: UserId;
  /** Whether they are typing. */
  is_typing: boolean;
}

/** A push from the application's own back end. */
export interface Event {
  /** The application's name for it. */
  name: string;
  /** The application's data. */
  data: unknown;
}

/** Something may have been missed: wait `delay_ms`, then ask for the manifest. */
export interface ResyncRequired {
  /**
   * Why, for logs: `delivery_gap`, `lease_lost`, `link_gap` or `undelivered`. Whichever it is, the
   * client does the same.
   */
  reason: string;
  /** Which chats; absent means all. */
  chat_ids?: ChatId[];
  /** How long to wait first, different for every connection. */
  delay_ms: number;
}

/**
 * The token ran out: send `refresh_token` within the grace. Until then pushes and heartbeats go on,
 * and requests get `UNAUTHORIZED`.
 */
export interface TokenExpired {
  /** How long the connection stays open. */
  grace_period_seconds: number;
}

/** The newer token is in force: the answer to `refresh_token`. */
export interface TokenRefreshed {
  /** The request. */
  request_id: RequestId;
  /** When the newer token ends. */
  expires_at: Timestamp;
}

/** What every frame of the server carries. */
export interface Timestamped {
  /** When the server said it. */
  timestamp: Timestamp;
}

/**
 * A frame from the server. On the wire it is a flat JSON object with the variant's name as its
 * `type` and, last, a `timestamp`.
 */
export type ServerFrame =
  /** The socket came without a token: send `authenticate` within the timeout. */
  | ({ type: "auth_challenge" } & AuthChallenge & Timestamped)
  /** The connection is admitted and leased: from here on requests are taken and pushes arrive. */
  | ({ type: "connection_established" } & ConnectionEstablished & Timestamped)
  /** The answer to `heartbeat`. */
  | ({ type: "heartbeat_ack" } & HeartbeatAck & Timestamped)
  /**
   * The message is stored and on its way: the answer to `send_message`. Acks may overtake pushes.
   */
  | ({ type: "message_ack" } & MessageAck & Timestamped)
  /** A message of a chat that the user is a member of. */
  | ({ type: "message" } & Message & Timestamped)
  /** A page of a chat's messages: the answer to `sync_request`. */
  | ({ type: "sync_response" } & SyncResponse & Timestamped)
  /** A page of the user's chats: the answer to `sync_manifest`. */
  | ({ type: "sync_manifest" } & SyncManifest & Timestamped)
  /** A chat was made, renamed, or its members changed. */
  | ({ type: "chat_changed" } & ChatChanged & Timestamped)
  /**
   * The presence of the users of a `presence_subscribe`, or none after a `presence_unsubscribe`.
   */
  | ({ type: "presence_snapshot" } & PresenceSnapshot & Timestamped)
  /** A watched user came or went, or may be seen no longer. */
  | ({ type: "presence_changed" } & Presence & Timestamped)
  /** Somebody is typing. Clients forget it after 10 s, should its end never be told. */
  | ({ type: "typing_indicator" } & TypingIndicator & Timestamped)
  /** A push from the application's own back end. */
  | ({ type: "event" } & Event & Timestamped)
  /** Something may have been missed: wait `delay_ms`, then ask for the manifest. */
  | ({ type: "resync_required" } & ResyncRequired & Timestamped)
  /**
   * The token ran out: send `refresh_token` within the grace. Until then pushes and heartbeats go
   * on, and requests get `UNAUTHORIZED`.
   */
  | ({ type: "token_expired" } & TokenExpired & Timestamped)
  /** The newer token is in force: the answer to `refresh_token`. */
  | ({ type: "token_refreshed" } & TokenRefreshed & Timestamped)
  /** A request was refused, or, without a `request_id`, a frame or a warning. */
  | ({ type: "error" } & ErrorFrame & Timestamped)
  /**
   * The connection is about to end; answers to what is in flight come before it, the Close frame
   * after it.
   */
  | ({ type: "connection_closing" } & ConnectionClosing & Timestamped);

/** The ServerFrame of a type. */
export type ServerFrameOf<Type extends ServerFrame["type"]> = Extract<ServerFrame, { type: Type }>;

export interface ConnectionEstablished {
  /** This connection. */
  connection_id: ConnectionId;
  /** The token's user. */
  user_id: UserId;
  /** The device in force: the token's, the client's, or one that the server made. */
  device_id: DeviceId;
  /** The node. */
  server_id: NodeId;
  /** How often to send `heartbeat`. */
  heartbeat_interval_ms: number;
  /** How long silence is borne, on either side. */
  heartbeat_timeout_ms: number;
  /** The protocol's version. */
  protocol_version: number;
  /** Every limit that a client can run into. */
  limits: ClientLimits;
  /** What does not work at the moment, for example `presence`. */
  degraded?: string[];
}

export interface MessageAck {
  /** The request. */
  request_id: RequestId;
  /** The chat. */
  chat_id: ChatId;
  /** The sender's own name for the message. */
  client_message_id: ClientMessageId;
  /** The server's name for it. */
  message_id: MessageId;
  /** Its number in the chat: 1, 2, 3 and so on. */
  sequence: number;
  /** When it was stored. */
  created_at: Timestamp;
  /** Whether an earlier attempt had stored it. */
  duplicate: boolean;
}

/** A message of a chat, as pushed and as in a sync page. */
export interface Message {
  /** The chat. */
  chat_id: ChatId;
  /** Its number in the chat: 1, 2, 3 and so on. */
  sequence: number;
  /** The server's name for it. */
  message_id: MessageId;
  /** Who sent it. */
  sender_id: UserId;
  /** The sender's own name for it. */
  client_message_id: ClientMessageId;
  /** What is said; empty when it was deleted. */
  content: string;
  /** What kind of content it is, for the application. */
  content_type: string;
  /** When it was stored. */
  created_at: Timestamp;
  /** Present and true when the content was deleted. */
  deleted?: boolean;
}

/** A chat in the manifest. */
export interface ManifestChat {
  /** The chat. */
  chat_id: ChatId;
  /** Its newest sequence. */
  head_sequence: number;
  /** How far the user has acknowledged it, on any device. */
  last_acked_sequence: number;
}

/** What happened to a chat. */
export type ChatChange =
  /** It was made. */
  | "created"
  /** It has another name. */
  | "renamed"
  /** Somebody came. */
  | "member_added"
  /** Somebody went. */
  | "member_removed"
  /** Somebody has another role. */
  | "role_changed";

/** A chat as REST and `chat_changed` show it. */
export interface Chat {
  /** The chat. */
  chat_id: ChatId;
  /** Between two, or for many. */
  type: ChatKind;
  /** Its name, if it has one. */
  name?: string;
  /** Who belongs to it. */
  members: ChatMember[];
  /** Its newest sequence. */
  head_sequence: number;
  /** When it was made. */
  created_at: Timestamp;
}

/** Whether a chat is between two or for many. */
export type ChatKind =
  /** The one chat of a pair. */
  | "direct"
  /** A chat of up to 1,000. */
  | "group";

/** One who belongs to a chat. */
export interface ChatMember {
  /** Who. */
  user_id: UserId;
  /** What they may do. */
  role: Role;
}

/** What a member may do. */
export type Role =
  /** Everything; leaves only after making another one owner. */
  | "owner"
  /** Rename and manage members. */
  | "admin"
  /** Read and write. */
  | "member";

/** Whether a user is online, to one who may know. */
export interface Presence {
  /** Who. */
  user_id: UserId;
  /** Online, offline, or not to be told. */
  status: PresenceStatus;
  /** When they were last online; only with `offline`. */
  last_seen?: Timestamp;
  /** Present and true when the server itself cannot tell at the moment. */
  stale?: boolean;
  /**
   * Receivers drop what is not newer than what they have; absent with `unknown`, which is always
   * taken, as is whatever follows it.
   */
  version?: number;
}

/** The three states of presence. */
export type PresenceStatus =
  /** At least one live connection. */
  | "online"
  /** None. */
  | "offline"
  /** Not known, or not for this observer to know. */
  | "unknown";

export interface ErrorFrame {
  /** The request that was refused; absent for warnings and for frames without one. */
  request_id?: RequestId;
  /** What went wrong. */
  code: ErrorCode;
  /** The same in words for a person, which may change. */
  message: string;
  /** Whether the same request may succeed later. */
  retryable: boolean;
  /** How long to wait before trying again; without it the client's own growing pause. */
  retry_after_seconds?: number;
  /** More about it. */
  details?: ErrorDetails;
}

/** More about an error. */
export interface ErrorDetails {
  /** Whether this attempt may have stored something. */
  outcome?: Outcome;
  /** How long there is to recover; with `SLOW_CONSUMER`. */
  grace_period_seconds?: number;
  /**
   * A finer reason: `unknown_type` for a frame of a type that the server does not know,
   * `too_many_subscriptions` for a watch too many; others over REST.
   */
  reason?: string;
  /** The field that was wrong. */
  field?: string;
}

/** Whether a refused attempt may have stored something. */
export type Outcome =
  /** It stored nothing. */
  | "rejected"
  /** It may have: keep the message pending, with its id. */
  | "unknown";

export interface ConnectionClosing {
  /** Why, and by that what to do. */
  reason: CloseReason;
  /** False where coming back with what the client has now cannot help. */
  reconnect_allowed: boolean;
  /**
   * How long to wait before coming back, different for every connection. It counts before the
   * client's own pause.
   */
  reconnect_delay_ms: number;
  /**
   * The first sequence that was not written, per chat, for at most 50 chats. A hint and no more:
   * servers may leave it out, and the manifest says the same for every chat.
   */
  sync_hints?: Record<ChatId, number>;
}

/**
 * A frame from a client. On the wire it is a flat JSON object whose `type` is the variant's name.
 */
export type ClientFrame =
  /**
   * The answer to `auth_challenge`: answered by `connection_established`, or by
   * `connection_closing` when the token is not good. Once is enough: a second one is a `CONFLICT`.
   */
  | ({ type: "authenticate" } & Authenticate)
  /**
   * A newer token for the same user and device, answered by `token_refreshed`. When it is refused,
   * the old token stays in force.
   */
  | ({ type: "refresh_token" } & RefreshToken)
  /** "I am alive", answered at once by `heartbeat_ack`. */
  | ({ type: "heartbeat" } & Heartbeat)
  /**
   * A message for a chat, answered by `message_ack` once it is stored. The other connections of the
   * sender and of every member get it as `message`; the one that sent it gets the ack alone.
   */
  | ({ type: "send_message" } & SendMessage)
  /**
   * How far this user has received a chat; never answered. The highest number counts, on whichever
   * device, and one above the chat's newest is taken for the newest.
   */
  | ({ type: "ack" } & Ack)
  /** A page of a chat's messages after a sequence, answered by `sync_response`. */
  | ({ type: "sync_request" } & SyncRequest)
  /**
   * Every chat of the user with its newest sequence, answered by `sync_manifest` in pages of 200
   * chats.
   */
  | ({ type: "sync_manifest" } & SyncManifestRequest)
  /**
   * Watch the presence of users, answered by `presence_snapshot`; `presence_changed` follows with
   * every change. Watches end with their connection.
   */
  | ({ type: "presence_subscribe" } & PresenceUsers)
  /** Watch them no longer, answered by a `presence_snapshot` without users. */
  | ({ type: "presence_unsubscribe" } & PresenceUsers)
  /**
   * The user is, or is no longer, typing; never answered. Too many are not refused: the latest is
   * passed on.
   */
  | ({ type: "typing" } & Typing);

/** The ClientFrame of a type. */
export type ClientFrameOf<Type extends ClientFrame["type"]> = Extract<ClientFrame, { type: Type }>;

export interface Authenticate {
  /** The token to check. */
  token: Token;
  /** The device, unless the token or the upgrade named one. */
  device_id?: DeviceId;
}

export interface RefreshToken {
  /** Echoed by `token_refreshed`. */
  request_id: RequestId;
  /** The token to check. */
  token: Token;
}

export interface Heartbeat {
}

export interface SendMessage {
  /** Echoed by the answer. */
  request_id: RequestId;
  /** To which chat. */
  chat_id: ChatId;
  /** The sender's own name for the message, the same in every retry: it is stored once. */
  client_message_id: ClientMessageId;
  /** What is said: 1 to 4096 bytes of UTF-8. */
  content: string;
  /** What kind of content it is, for the application: 1 to 64 bytes, `text/plain` unless said. */
  content_type?: string;
}

export interface Ack {
  /** The chat. */
  chat_id: ChatId;
  /** Everything up to and including this number was received. */
  last_acked_sequence: number;
}

export interface SyncRequest {
  /** Echoed by the answer. */
  request_id: RequestId;
  /** The chat. */
  chat_id: ChatId;
  /** The page begins after this number; 0 begins with the first message. */
  after_sequence: number;
  /**
   * How many messages at most: 100 unless said, and never more than 500 or 262144 bytes of content.
   */
  limit?: number;
}

export interface SyncManifestRequest {
  /** Echoed by the answer. */
  request_id: RequestId;
  /** The `next_page` of the page before; absent for the first. */
  page?: string;
}

export interface PresenceUsers {
  /** Echoed by the answer. */
  request_id: RequestId;
  /** Whom: 1 to 100 a frame, and at most 1000 a connection. */
  user_ids: UserId[];
}

export interface Typing {
  /** In which chat. */
  chat_id: ChatId;
  /** Whether the user is typing. */
  is_typing: boolean;
}

/** The body of every refused HTTP request. */
export interface ErrorBody {
  /** The refusal. */
  error: ErrorObject;
}

/** What was refused and why. */
export interface ErrorObject {
  /** What went wrong. */
  code: ErrorCode;
  /** The same for a person. */
  message: string;
  /** Names this request in the server's log. */
  request_id: string;
  /** More about it. */
  details?: ErrorDetails;
}

/** A page of a list. */
export interface Page<T> {
  /** The items. */
  items: T[];
  /** Where the next page begins, if there is one. */
  next_cursor: string | null;
}

/** The body of `POST /v1/chats`. */
export interface CreateChat {
  /** Between two, or for many. */
  type: ChatKind;
  /** The name of a group; a direct chat has none. */
  name?: string;
  /** Who belongs to it besides the caller; exactly one other for a direct chat. */
  member_ids: UserId[];
}

/** The body of `PATCH /v1/chats/{chat_id}`. */
export interface RenameChat {
  /** The new name; null takes the name away. */
  name: string | null;
}

/** The body of `POST /v1/chats/{chat_id}/members`. */
export interface AddMember {
  /** Who. */
  user_id: UserId;
  /** As what; a plain member unless said otherwise. */
  role?: Role;
}

/** The body of `PATCH /v1/chats/{chat_id}/members/{user_id}`. */
export interface SetRole {
  /** What they may do from now on. */
  role: Role;
}

/** The body of `POST /v1/chats/{chat_id}/messages`. */
export interface SendMessageBody {
  /** The sender's own name for it, the same in every retry. */
  client_message_id: ClientMessageId;
  /** What is said. */
  content: string;
  /** What kind of content it is; `text/plain` unless said otherwise. */
  content_type?: string;
  /** On whose behalf; only for a token with the scope `service`. */
  sender_id?: UserId;
}

/** The answer to `POST /v1/chats/{chat_id}/messages`: the message as it is stored. */
export interface SentMessage extends Message {
  /** Whether an earlier attempt had stored it. */
  duplicate: boolean;
}

/** A chat in the list of a user's chats. */
export interface ListedChat extends Chat {
  /** How far the user has acknowledged it, on any device. */
  last_acked_sequence: number;
  /** Its newest message, if there is one. */
  last_message?: Message;
}

/** How far a member has acknowledged a chat. */
export interface Delivery {
  /** Who. */
  user_id: UserId;
  /**
   * Everything up to and including this number was received; absent when the asker may not know, or
   * when another member has received nothing.
   */
  last_acked_sequence?: number;
}

/** What a user shows of themselves. */
export interface User {
  /** Who. */
  user_id: UserId;
  /** What they want to be called. */
  display_name?: string;
}

/** The body of `PATCH /v1/users/me`. */
export interface UpdateUser {
  /** What the caller wants to be called; null takes the name away. */
  display_name: string | null;
}

/** Who may see whether a user is online, and what follows from it. */
export type Visibility =
  /** Any authenticated user. */
  | "everyone"
  /** Those whom the user has put as contacts and who have put the user. */
  | "contacts_only"
  /** Nobody but the user. */
  | "nobody";

/** The body of `GET` and `PUT /v1/presence/visibility`. */
export interface VisibilitySetting {
  /** Who may see the caller's presence. */
  visibility: Visibility;
}

/**
 * One of the caller's contacts. It does not say whether they have put the caller too: that would
 * tell a contact who hides from one who has removed the caller.
 */
export interface Contact {
  /** Who. */
  user_id: UserId;
}

/** The body of `POST /v1/presence/query`. */
export interface PresenceQuery {
  /** Whose presence: 1 to 500 users. */
  user_ids: UserId[];
}

/** What a client does after each closing reason. */
export const CLOSE_REASONS: Record<CloseReason, { code: number; reconnect: Reconnect }> = {
  auth_timeout: { code: 4408, reconnect: "back_off" },
  unauthorized: { code: 4401, reconnect: "with_new_token" },
  token_expired: { code: 4401, reconnect: "with_new_token" },
  session_replaced: { code: 4409, reconnect: "never" },
  session_ended: { code: 4403, reconnect: "never" },
  connection_limit: { code: 4429, reconnect: "back_off" },
  heartbeat_timeout: { code: 4410, reconnect: "back_off" },
  slow_consumer: { code: 1008, reconnect: "back_off" },
  rate_limited: { code: 4429, reconnect: "back_off" },
  protocol_error: { code: 1003, reconnect: "back_off" },
  server_shutdown: { code: 1001, reconnect: "after_delay" },
  max_age: { code: 1001, reconnect: "after_delay" },
  overloaded: { code: 1013, reconnect: "back_off" },
  internal_error: { code: 1011, reconnect: "back_off" },
};

/** The errors after which one tries again. */
export const RETRYABLE_ERRORS: readonly ErrorCode[] = [
  "UNAUTHORIZED",
  "RATE_LIMITED",
  "SERVER_BUSY",
  "SERVICE_UNAVAILABLE",
  "INTERNAL_ERROR",
];
