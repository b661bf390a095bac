/** One chat. */
import type { Receipt } from "./draft.js";
import type { MessageListener } from "./delivery.js";
import type { Unsubscribe } from "./listeners.js";
import type { ChatId, ClientMessageId, Message, Page, UserId } from "./protocol.gen.js";
import type { HistoryOptions } from "./rest.js";

/** Options of a message besides its content. */
export interface SendOptions {
  /** The content type, for the application; `text/plain` by default. */
  content_type?: string;
  /** The application's own id of the message, the same in every retry. */
  client_message_id?: ClientMessageId;
}

/** The operations of the client that a chat handle calls. */
export interface ChatActions {
  send(content: string, options: SendOptions): Promise<Receipt>;
  typing(is_typing: boolean): void;
  onMessage(listener: MessageListener): Unsubscribe;
  onTyping(listener: (chat_id: ChatId, user_id: UserId, is_typing: boolean) => void): Unsubscribe;
  history(page: HistoryOptions): Promise<Page<Message>>;
}

/** A handle to one chat of a client. A handle has no state, so any number of them can exist. */
export class ChatHandle {
  readonly #actions: ChatActions;

  constructor(
    readonly chat_id: ChatId,
    actions: ChatActions,
  ) {
    this.#actions = actions;
  }

  /**
   * Sends a message. The client keeps it in the outbox and retries until the server has stored it,
   * across connections, and across pages if the storage is persistent; then the promise resolves.
   * If the server definitely rejects the message, the promise rejects with a `RefusedError`.
   * Messages of one chat are stored in the order of the calls.
   */
  send(content: string, options: SendOptions = {}): Promise<Receipt> {
    return this.#actions.send(content, options);
  }

  /** Reports that the user is typing, or has stopped. Call it on every keystroke. */
  typing(is_typing = true): void {
    this.#actions.typing(is_typing);
  }

  /**
   * Calls the listener with every message of the chat, once and in order, including the user's own.
   */
  onMessage(listener: MessageListener): Unsubscribe {
    return this.#actions.onMessage(listener);
  }

  /** Calls the listener when a user starts or stops typing. */
  onTyping(listener: (user_id: UserId, is_typing: boolean) => void): Unsubscribe {
    return this.#actions.onTyping((chat_id, user_id, is_typing) => {
      if (chat_id === this.chat_id) listener(user_id, is_typing);
    });
  }

  /**
   * Returns a page of messages in ascending order: the newest, or those before or after a sequence.
   */
  history(page: HistoryOptions = {}): Promise<Page<Message>> {
    return this.#actions.history(page);
  }
}
