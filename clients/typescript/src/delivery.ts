/** Calls the application's listeners, one message at a time in each chat. */
import { Listeners, type Unsubscribe } from "./listeners.js";
import type { ChatId, Message } from "./protocol.gen.js";

/** The number of messages queued for the application. Further ones stay on the server. */
const WAITING_MAX = 1000;

/**
 * Called with a message, and whether this user sent it, on any device. If the listener returns a
 * promise, the chat's next message waits for it.
 */
export type MessageListener = (message: Message, own: boolean) => unknown;

/** The callbacks of a delivery. */
export interface DeliveryEvents {
  /** The application has received this message. */
  handedOver(message: Message): void;
  /** The chat has no listener: messages after this sequence were not delivered. */
  left(chat_id: ChatId, sequence: number): void;
  /** Messages are accepted again that were not accepted before: of this chat, or of all. */
  accepts(chat_id: ChatId | undefined): void;
}

/** The queues of messages for the application. */
export class Delivery {
  readonly #events: DeliveryEvents;
  readonly #everywhere = new Listeners<[Message, boolean]>();
  readonly #inChat = new Map<ChatId, Listeners<[Message, boolean]>>();
  readonly #queues = new Map<ChatId, Message[]>();
  #waiting = 0;
  #wasFull = false;
  /** The user whose messages count as own. */
  user_id: string | undefined;

  constructor(events: DeliveryEvents) {
    this.#events = events;
  }

  /** Adds a listener for a chat, or for all chats. */
  listen(chat_id: ChatId | undefined, listener: MessageListener): Unsubscribe {
    const listeners = chat_id === undefined ? this.#everywhere : this.#listenersOf(chat_id);
    const remove = listeners.add(listener);
    this.#events.accepts(chat_id);
    return () => {
      remove();
      const isLast = chat_id !== undefined && listeners.size === 0;
      if (isLast && this.#inChat.get(chat_id) === listeners) this.#inChat.delete(chat_id);
      for (const [id, queue] of this.#queues) this.#leave(id, queue);
    };
  }

  /** Whether the chat has a listener. */
  isHeard(chat_id: ChatId): boolean {
    return this.#everywhere.size > 0 || this.#inChat.has(chat_id);
  }

  /** Whether messages of a chat can be queued: there is a listener, and room. */
  accepts(chat_id: ChatId): boolean {
    const isFull = this.#waiting >= WAITING_MAX;
    this.#wasFull ||= isFull;
    return !isFull && this.isHeard(chat_id);
  }

  /** Queues messages of one chat, in this order. */
  push(chat_id: ChatId, messages: Message[]): void {
    const [first] = messages;
    if (first === undefined) return;
    if (!this.isHeard(chat_id)) {
      this.#events.left(chat_id, first.sequence - 1);
      return;
    }
    this.#waiting += messages.length;
    const queue = this.#queues.get(chat_id);
    if (queue !== undefined) {
      queue.push(...messages);
      return;
    }
    this.#queues.set(chat_id, [...messages]);
    this.#run(chat_id);
  }

  /** Stops delivering a chat. */
  forget(chat_id: ChatId): void {
    this.#waiting -= this.#queues.get(chat_id)?.length ?? 0;
    this.#queues.delete(chat_id);
  }

  /** Stops delivering. */
  clear(): void {
    this.#queues.clear();
    this.#waiting = 0;
  }

  /** While a chat has a queue, its messages are being delivered. */
  #run(chat_id: ChatId): void {
    for (;;) {
      const message = this.#queues.get(chat_id)?.[0];
      if (message === undefined) break;
      const own = message.sender_id === this.user_id;
      const promises = [
        ...(this.#inChat.get(chat_id)?.tell(message, own) ?? []),
        ...this.#everywhere.tell(message, own),
      ];
      if (promises.length > 0) {
        void Promise.all(promises).then(() => {
          if (this.#done(chat_id, message)) this.#run(chat_id);
        });
        return;
      }
      if (!this.#done(chat_id, message)) return;
    }
    this.#queues.delete(chat_id);
  }

  /** Leaves messages without a listener on the server, except the one being delivered. */
  #leave(chat_id: ChatId, queue: Message[]): void {
    const [taken] = queue;
    if (taken === undefined || this.isHeard(chat_id)) return;
    this.#waiting -= queue.length - 1;
    queue.length = 1;
    this.#events.left(chat_id, taken.sequence);
  }

  /**
   * The application has received a message. Returns whether delivery continues: not if the queue
   * was dropped.
   */
  #done(chat_id: ChatId, message: Message): boolean {
    const queue = this.#queues.get(chat_id);
    if (queue?.[0] !== message) return false;
    queue.shift();
    this.#waiting -= 1;
    this.#events.handedOver(message);
    if (this.#wasFull && this.#waiting < WAITING_MAX / 2) {
      this.#wasFull = false;
      this.#events.accepts(undefined);
    }
    return true;
  }

  #listenersOf(chat_id: ChatId): Listeners<[Message, boolean]> {
    let listeners = this.#inChat.get(chat_id);
    if (listeners === undefined) {
      listeners = new Listeners();
      this.#inChat.set(chat_id, listeners);
    }
    return listeners;
  }
}
