/** A message that the application wants sent. */
import { type ClientErrorCode, HeartlineError } from "./error.js";
import {
  CONTENT_BYTES_MAX,
  CONTENT_TYPE_BYTES_MAX,
  type ChatId,
  type ClientMessageId,
  DEFAULT_CONTENT_TYPE,
  type Message,
  type MessageAck,
} from "./protocol.gen.js";

/** A message before it is acknowledged. Its id stays the same however often it is sent. */
export interface Draft {
  chat_id: ChatId;
  client_message_id: ClientMessageId;
  content: string;
  content_type?: string;
}

/** A draft in an outbox, and its place there. */
export interface StoredDraft extends Draft {
  order: number;
}

/** What a message was answered. */
export type Receipt = Pick<
  MessageAck,
  "chat_id" | "client_message_id" | "message_id" | "sequence" | "created_at" | "duplicate"
>;

/** A draft's name in an outbox: one sender names a message once in a chat. */
export function keyOf(draft: { chat_id: ChatId; client_message_id: ClientMessageId }): string {
  return `${draft.chat_id}/${draft.client_message_id}`;
}

/** An id that nobody makes again. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Throws for what no server could take. */
export function check(draft: Draft): void {
  const { content, content_type = DEFAULT_CONTENT_TYPE } = draft;
  checkBytes("INVALID_CONTENT", content, CONTENT_BYTES_MAX);
  checkBytes("INVALID_CONTENT_TYPE", content_type, CONTENT_TYPE_BYTES_MAX);
  if (!/^[\w.@|:+-]{1,64}$/.test(draft.client_message_id)) {
    const message = "client_message_id must have 1 to 64 of A-Z a-z 0-9 _ . @ | : + -";
    throw new HeartlineError("INVALID_CLIENT_MESSAGE_ID", message);
  }
}

function checkBytes(code: ClientErrorCode, text: string, bytesMax: number): void {
  const bytes = new TextEncoder().encode(text).length;
  const isWithin = bytes >= 1 && bytes <= bytesMax;
  if (!isWithin) throw new HeartlineError(code, `it must have 1 to ${bytesMax} bytes: ${bytes}`);
}

/** The message as everybody else sees it, now that the server has acknowledged it. */
export function messageOf(draft: Draft, receipt: Receipt, sender_id: string): Message {
  const { chat_id, client_message_id, content, content_type = DEFAULT_CONTENT_TYPE } = draft;
  const { sequence, message_id, created_at } = receipt;
  const own = { chat_id, client_message_id, content, content_type, sender_id };
  return { ...own, sequence, message_id, created_at };
}
