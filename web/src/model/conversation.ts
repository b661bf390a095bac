/** The messages of one chat: what was said before, what comes, and what is being sent. */
import { type Client, type Draft, HeartlineError, type Message } from "heartline";
import { Observable } from "./observable.js";
import { uuid } from "./uuid.js";

/** Messages that are asked for at once. */
const PAGE = 40;
/** How often it is asked whether messages have arrived, while that is of interest. */
const DELIVERY_INTERVAL_MS = 2500;

/** A message that is not stored yet, or will not be. */
export interface Pending {
  client_message_id: string;
  content: string;
  /** Why the server refused it for good. */
  refusal: string | undefined;
}

/** A conversation. */
export class Conversation extends Observable {
  readonly #client: Client;
  readonly #user_id: string;
  readonly #messages = new Map<number, Message>();
  /** What this page is sending, or was refused. */
  #pending: Pending[] = [];
  #drafts: readonly Draft[] = [];
  /** The own messages that are known to be stored, by the ids that they were sent with. */
  readonly #stored = new Set<string>();
  /** How far each other member has received the chat, as far as it may be known. */
  readonly #received = new Map<string, number | undefined>();
  readonly #stopListening: () => void;
  #isLoading = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isShown = false;
  /** Whether the first page has come. */
  isLoaded = false;
  /** Whether there are older messages. */
  hasOlder = false;
  error: string | undefined;
  /** What is being written and was not sent, for when the reader comes back to it. */
  text = "";

  constructor(
    client: Client,
    readonly chat_id: string,
    user_id: string,
  ) {
    super();
    this.#client = client;
    this.#user_id = user_id;
    // What could not be had while the server was away is asked for again.
    this.#stopListening = client.onState((state) => {
      const isMissing = !this.isLoaded || this.error !== undefined;
      if (state === "connected" && this.#isShown && isMissing) void this.older();
    });
  }

  /** The stored messages, oldest first. */
  get messages(): Message[] {
    return [...this.#messages.values()].sort((one, other) => one.sequence - other.sequence);
  }

  /** The messages that are on their way, in order. */
  get pending(): readonly Pending[] {
    const waiting = this.#drafts.filter(({ client_message_id: id }) => !this.#stored.has(id));
    const ids = new Set(waiting.map((draft) => draft.client_message_id));
    const fresh = this.#pending.filter((one) => !ids.has(one.client_message_id));
    return [...waiting.map((draft) => ({ ...draft, refusal: undefined })), ...fresh];
  }

  /** What waits in the outbox: of this page, of other tabs, and of the page before a reload. */
  set drafts(drafts: readonly Draft[]) {
    this.#drafts = drafts;
    this.changed();
  }

  /** Up to where everything has reached every other member; undefined if one of them is unknown. */
  get deliveredToAll(): number | undefined {
    const numbers = [...this.#received.values()];
    if (numbers.length === 0 || numbers.includes(undefined)) return undefined;
    return Math.min(...(numbers as number[]));
  }

  /** The conversation is on the screen; answers how to say that it no longer is. */
  show(): () => void {
    this.#isShown = true;
    if (!this.isLoaded) void this.older();
    void this.#askDelivery();
    return () => this.#hide();
  }

  /** The conversation is kept no longer. */
  close(): void {
    this.#stopListening();
    this.#hide();
  }

  /** Asks for older messages, or for the newest if there are none yet. */
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

  /** Sends a message. It is shown at once, and marked once it is stored. */
  async send(content: string): Promise<void> {
    const client_message_id = uuid();
    this.#pending = [...this.#pending, { client_message_id, content, refusal: undefined }];
    this.changed();
    try {
      await this.#client.chat(this.chat_id).send(content, { client_message_id });
    } catch (error) {
      // A client that was closed sends it again when the user comes back.
      if (error instanceof HeartlineError && error.code === "CLOSED") return;
      const refusal = error instanceof Error ? error.message : String(error);
      this.#pending = this.#pending.map((one) =>
        one.client_message_id === client_message_id ? { ...one, refusal } : one,
      );
      this.changed();
    }
  }

  /** A message of the page before a reload was refused for good. */
  refuse({ client_message_id, content }: Draft, refusal: string): void {
    this.#pending = [...this.#pending, { client_message_id, content, refusal }];
    this.changed();
  }

  /** Shows a refused message no longer. */
  discard(client_message_id: string): void {
    this.#pending = this.#pending.filter((one) => one.client_message_id !== client_message_id);
    this.changed();
  }

  /** The user is typing, or no longer. */
  typing(is_typing: boolean): void {
    this.#client.chat(this.chat_id).typing(is_typing);
  }

  /** A message came. */
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

  /** Whether an own message is shown of which it is not known that everybody has it. */
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
        // The marks stay as they are; the next round asks again.
      }
    }
    this.#planDelivery();
  }
}
