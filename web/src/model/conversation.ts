/** The messages of one chat: stored, new and pending. */
import { type Client, type Draft, HeartlineError, type Message } from "heartline";
import { Observable } from "./observable.js";
import { uuid } from "./uuid.js";

/** The size of a page of messages. */
const PAGE = 40;
/** The interval at which the delivery state is requested, while it is shown. */
const DELIVERY_INTERVAL_MS = 2500;

/** A message that is not stored yet, or will not be. */
export interface Pending {
  client_message_id: string;
  content: string;
  /** Why the server rejected it for good. */
  refusal: string | undefined;
}

/** A conversation. */
export class Conversation extends Observable {
  readonly #client: Client;
  readonly #user_id: string;
  readonly #messages = new Map<number, Message>();
  /** The messages that this page is sending, or that were rejected. */
  #pending: Pending[] = [];
  #drafts: readonly Draft[] = [];
  /** The client ids of own messages that are known to be stored. */
  readonly #stored = new Set<string>();
  /** The watermark of each other member, as far as it is known. */
  readonly #received = new Map<string, number | undefined>();
  readonly #stopListening: () => void;
  #isLoading = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isShown = false;
  /** Whether the first page has loaded. */
  isLoaded = false;
  /** Whether there are older messages. */
  hasOlder = false;
  error: string | undefined;
  /** The text in the input field, kept while another chat is open. */
  text = "";

  constructor(
    client: Client,
    readonly chat_id: string,
    user_id: string,
  ) {
    super();
    this.#client = client;
    this.#user_id = user_id;
    // Repeats requests that failed while the server could not be reached.
    this.#stopListening = client.onState((state) => {
      const isMissing = !this.isLoaded || this.error !== undefined;
      if (state === "connected" && this.#isShown && isMissing) void this.older();
    });
  }

  /** The stored messages, oldest first. */
  get messages(): Message[] {
    return [...this.#messages.values()].sort((one, other) => one.sequence - other.sequence);
  }

  /** The pending messages, in order. */
  get pending(): readonly Pending[] {
    const waiting = this.#drafts.filter(({ client_message_id: id }) => !this.#stored.has(id));
    const ids = new Set(waiting.map((draft) => draft.client_message_id));
    const fresh = this.#pending.filter((one) => !ids.has(one.client_message_id));
    return [...waiting.map((draft) => ({ ...draft, refusal: undefined })), ...fresh];
  }

  /** The messages in the outbox: of this page, of other tabs, and of the page before a reload. */
  set drafts(drafts: readonly Draft[]) {
    this.#drafts = drafts;
    this.changed();
  }

  /**
   * The sequence up to which every other member has received the chat; undefined if one is unknown.
   */
  get deliveredToAll(): number | undefined {
    const numbers = [...this.#received.values()];
    if (numbers.length === 0 || numbers.includes(undefined)) return undefined;
    return Math.min(...(numbers as number[]));
  }

  /** The conversation is visible; returns a function to call when it no longer is. */
  show(): () => void {
    this.#isShown = true;
    if (!this.isLoaded) void this.older();
    void this.#askDelivery();
    return () => this.#hide();
  }

  /** Closes the conversation. */
  close(): void {
    this.#stopListening();
    this.#hide();
  }

  /** Loads older messages, or the newest if none is loaded. */
  async older(): Promise<void> {
    if (this.#isLoading || (this.isLoaded && !this.hasOlder)) return;
    this.#isLoading = true;
    const first = this.isLoaded ? this.messages[0]?.sequence : undefined;
    try {
      const before = first === undefined ? {} : { before_sequence: first };
      const page = await this.#client.rest.listMessages(this.chat_id, { limit: PAGE, ...before });
      for (const message of page.items) this.#put(message);
      this.hasOlder = (page.items[0]?.sequence ?? 1) > 1;
      this.isLoaded = true;
      this.error = undefined;
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.#isLoading = false;
    this.changed();
  }

  /** Sends a message. It is shown at once, and marked when it is stored. */
  async send(content: string): Promise<void> {
    const client_message_id = uuid();
    this.#pending = [...this.#pending, { client_message_id, content, refusal: undefined }];
    this.changed();
    try {
      await this.#client.chat(this.chat_id).send(content, { client_message_id });
    } catch (error) {
      // If the client was closed, the outbox sends the message when the user returns.
      if (error instanceof HeartlineError && error.code === "CLOSED") return;
      const refusal = error instanceof Error ? error.message : String(error);
      this.#pending = this.#pending.map((one) =>
        one.client_message_id === client_message_id ? { ...one, refusal } : one,
      );
      this.changed();
    }
  }

  /** A message of the page before a reload was rejected for good. */
  refuse({ client_message_id, content }: Draft, refusal: string): void {
    this.#pending = [...this.#pending, { client_message_id, content, refusal }];
    this.changed();
  }

  /** Removes a rejected message. */
  discard(client_message_id: string): void {
    this.#pending = this.#pending.filter((one) => one.client_message_id !== client_message_id);
    this.changed();
  }

  /** Reports that the user is typing, or has stopped. */
  typing(is_typing: boolean): void {
    this.#client.chat(this.chat_id).typing(is_typing);
  }

  /** Takes a message. */
  take(message: Message): void {
    this.#put(message);
    if (message.sender_id === this.#user_id) this.#planDelivery();
    this.changed();
  }

  #put(message: Message): void {
    const { client_message_id, sender_id, sequence } = message;
    this.#messages.set(sequence, message);
    if (sender_id !== this.#user_id) return;
    this.#stored.add(client_message_id);
    this.#pending = this.#pending.filter((one) => one.client_message_id !== client_message_id);
  }

  #hide(): void {
    this.#isShown = false;
    clearTimeout(this.#timer);
  }

  /** Whether an own message is visible that is not known to be delivered to all members. */
  get #isCurious(): boolean {
    const own = this.messages.findLast((message) => message.sender_id === this.#user_id);
    return own !== undefined && own.sequence > (this.deliveredToAll ?? 0);
  }

  #planDelivery(): void {
    clearTimeout(this.#timer);
    if (!this.#isShown) return;
    this.#timer = setTimeout(() => void this.#askDelivery(), DELIVERY_INTERVAL_MS);
  }

  async #askDelivery(): Promise<void> {
    const isWanted = document.visibilityState === "visible" && this.#client.state === "connected";
    if (isWanted && (this.#received.size === 0 || this.#isCurious)) {
      try {
        const { items } = await this.#client.rest.listDelivery(this.chat_id, { limit: 200 });
        this.#received.clear();
        for (const { user_id, last_acked_sequence } of items) {
          if (user_id !== this.#user_id) this.#received.set(user_id, last_acked_sequence);
        }
        this.changed();
      } catch {
        // Keep the marks; the next request repeats this one.
      }
    }
    this.#planDelivery();
  }
}
