/** A message that is not stored yet. */
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

/** A message before its acknowledgement. Its id is the same in every attempt. */
export interface Draft {
  chat_id: ChatId;
  client_message_id: ClientMessageId;
  content: string;
  content_type?: string;
}

/** A draft in an outbox, with its position. */
export interface StoredDraft extends Draft {
  order: number;
}

/** The acknowledgement of a message. */
export type Receipt = Pick<
  MessageAck,
  "chat_id" | "client_message_id" | "message_id" | "sequence" | "created_at" | "duplicate"
>;

/** The key of a draft in an outbox: a sender uses a `client_message_id` once per chat. */
export function keyOf(draft: { chat_id: ChatId; client_message_id: ClientMessageId }): string {
  return `${draft.chat_id}/${draft.client_message_id}`;
}

/** Returns a new unique id. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Throws if the server would reject the draft. */
export function check(draft: Draft): void {
  const { content, content_type = DEFAULT_CONTENT_TYPE } = draft;
  checkBytes("INVALID_CONTENT", "content", content, CONTENT_BYTES_MAX);
  checkBytes("INVALID_CONTENT_TYPE", "content_type", content_type, CONTENT_TYPE_BYTES_MAX);
  if (!/^[\w.@|:+-]{1,64}$/.test(draft.client_message_id)) {
    const form = "1 to 64 of A-Z a-z 0-9 _ . @ | : + -";
    const message = `client_message_id "${draft.client_message_id}" must have ${form}`;
    throw new HeartlineError("INVALID_CLIENT_MESSAGE_ID", message);
  }
}

function checkBytes(code: ClientErrorCode, field: string, text: string, bytesMax: number): void {
  const bytes = new TextEncoder().encode(text).length;
  if (bytes >= 1 && bytes <= bytesMax) return;
  throw new HeartlineError(code, `${field} has ${bytes} bytes; 1 to ${bytesMax} are allowed`);
}

/** The message as other users see it, built from the draft and its acknowledgement. */
export function messageOf(draft: Draft, receipt: Receipt, sender_id: string): Message {
  const { chat_id, client_message_id, content, content_type = DEFAULT_CONTENT_TYPE } = draft;
  const { sequence, message_id, created_at } = receipt;
  const own = { chat_id, client_message_id, content, content_type, sender_id };
  return { ...own, sequence, message_id, created_at };
}
