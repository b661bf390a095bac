/** One chat. */
import type { Receipt } from "./draft.js";
import type { MessageListener } from "./delivery.js";
import type { Unsubscribe } from "./listeners.js";
import type { ChatId, ClientMessageId, Message, Page, UserId } from "./protocol.gen.js";
import type { HistoryOptions } from "./rest.js";

/** What may be said about a message besides its content. */
export interface SendOptions {
  /** What kind of content it is, for the application; `text/plain` unless said otherwise. */
  content_type?: string;
  /** A name of the application's own, the same in every retry. */
  client_message_id?: ClientMessageId;
}

/** What a chat asks of its client. */
export interface ChatActions {
  send(content: string, options: SendOptions): Promise<Receipt>;
  typing(is_typing: boolean): void;
  onMessage(listener: MessageListener): Unsubscribe;
  onTyping(listener: (chat_id: ChatId, user_id: UserId, is_typing: boolean) => void): Unsubscribe;
  history(page: HistoryOptions): Promise<Page<Message>>;
}

/** One chat of a client. It holds nothing, so there may be any number of them. */
export class ChatHandle {
  readonly #actions: ChatActions;

  constructor(
    readonly chat_id: ChatId,
    actions: ChatActions,
  ) {
    this.#actions = actions;
  }

  /**
   * Sends a message. It is kept in the outbox and tried until the server has stored it, across
   * connections, and across pages if the storage lasts: then this resolves. A definite refusal
   * rejects with a `RefusedError`. Messages of one chat are stored in the order of these calls.
   */
  send(content: string, options: SendOptions = {}): Promise<Receipt> {
    return this.#actions.send(content, options);
  }

  /** Says that the user is typing, or no longer. It may be called with every key. */
  typing(is_typing = true): void {
    this.#actions.typing(is_typing);
  }

  /** Tells of every message of the chat, once and in order, own ones included. */
  onMessage(listener: MessageListener): Unsubscribe {
    return this.#actions.onMessage(listener);
  }

  /** Tells who begins and who ends to type. */
  onTyping(listener: (user_id: UserId, is_typing: boolean) => void): Unsubscribe {
    return this.#actions.onTyping((chat_id, user_id, is_typing) => {
      if (chat_id === this.chat_id) listener(user_id, is_typing);
    });
  }

  /** A page of its messages, ascending: the newest, or those before or after a number. */
  history(page: HistoryOptions = {}): Promise<Page<Message>> {
    return this.#actions.history(page);
  }
}
