/** Client of the Heartline real-time server. */
export { ChatHandle, type SendOptions } from "./chat_handle.js";
export { Client, type ClientOptions, type Drafts } from "./client.js";
export type { WebSocketConstructor, WebSocketLike } from "./connection.js";
export type { MessageListener } from "./delivery.js";
export type { Draft, Receipt, StoredDraft } from "./draft.js";
export { type ClientErrorCode, HeartlineError, RefusedError } from "./error.js";
export type { Backlog } from "./inbox.js";
export { type IndexedDbOptions, IndexedDbStorage } from "./indexed_db_storage.js";
export type { Unsubscribe } from "./listeners.js";
export { MemoryStorage } from "./memory_storage.js";
export type { LockManagerLike } from "./outbox_lock.js";
export type { StopReason } from "./policy.js";
export type { Presence as PresenceWatch } from "./presence.js";
export type * from "./protocol.gen.js";
export { type HistoryOptions, type PageOptions, Rest } from "./rest.js";
export type { SocketState } from "./socket.js";
export type { Outcome as SendOutcome, Storage } from "./storage.js";
export type { TokenNeed, TokenProvider } from "./token.js";
