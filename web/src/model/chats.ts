/** The user's chats: names, last messages and unread counts. */
import type { Client, Draft, ListedChat, Message } from "heartline";
import { Conversation } from "./conversation.js";
import { requireValidName } from "./name.js";
import { Observable } from "./observable.js";

/** The size of a page of chats. */
const PAGE = 100;
/** The number of pages requested; further chats appear with their next message. */
const PAGES_MAX = 10;
/** The number of conversations kept in memory. */
const CONVERSATIONS_MAX = 20;

/** A chat as the server describes it. */
export type Chat = Omit<ListedChat, "last_acked_sequence" | "last_message">;

/** A chat in the list. */
export interface ChatEntry {
  chat: Chat;
  last: Message | undefined;
  /** The highest sequence read in this browser; undefined until the list has loaded. */
  read: number | undefined;
}

/** The chats. */
export class Chats extends Observable {
  readonly #client: Client;
  readonly #user_id: string;
  readonly #entries = new Map<string, ChatEntry>();
  /** The first and the last message of chats whose description has not arrived yet. */
  readonly #unlisted = new Map<string, { first: Message; last: Message }>();
  readonly #conversations = new Map<string, Conversation>();
  readonly #typing = new Map<string, Set<string>>();
  /** The pending messages of every tab of this user and of the page before a reload. */
  #drafts: readonly Draft[] = [];
  /** Another tab may have read messages. */
  readonly #storageChanged = () => this.changed();
  /** Whether the list has loaded. */
  isLoaded = false;
  /** The last error. */
  error: string | undefined;
  /** Called with members whose presence the page should show. */
  onMembers: (user_ids: string[]) => void = () => {};

  constructor(client: Client, user_id: string) {
    super();
    this.#client = client;
    this.#user_id = user_id;
    client.onMessage((message) => this.#take(message));
    client.onChatChanged(({ chat_id, chat }) => {
      if (chat === undefined) this.#remove(chat_id);
      else this.#put(chat);
      this.changed();
    });
    client.onTyping((chat_id, user, is_typing) => {
      const users = this.#typing.get(chat_id) ?? new Set();
      if (is_typing) users.add(user);
      else users.delete(user);
      this.#typing.set(chat_id, users);
      this.changed();
    });
    // Names and members may have changed during the disconnect.
    client.onState((state) => {
      if (state === "connected") void this.load();
    });
    client.outbox.onChange(() => void this.#readOutbox());
    void this.#readOutbox();
    // REST may work before the socket is open.
    void this.load();
    client.onRefused((draft, error) => {
      this.conversation(draft.chat_id).refuse(draft, error.message);
    });
    window.addEventListener("storage", this.#storageChanged);
  }

  /** Removes the listeners: the window outlives the client. */
  close(): void {
    window.removeEventListener("storage", this.#storageChanged);
    for (const chat_id of this.#conversations.keys()) this.#drop(chat_id);
  }

  /** The chats, most recent message first. */
  get list(): ChatEntry[] {
    return [...this.#entries.values()].sort((one, other) =>
      lastAt(other).localeCompare(lastAt(one)),
    );
  }

  get(chat_id: string): ChatEntry | undefined {
    return this.#entries.get(chat_id);
  }

  /** The title of a chat, for this user. */
  title(chat: Chat): string {
    if (chat.name !== undefined) return chat.name;
    const others = chat.members
      .map((member) => member.user_id)
      .filter((id) => id !== this.#user_id);
    return others.length === 0 ? "Only you" : others.join(", ");
  }

  /** The other member of a direct chat. */
  peer(chat: Chat): string | undefined {
    if (chat.type !== "direct") return undefined;
    return chat.members.find((member) => member.user_id !== this.#user_id)?.user_id;
  }

  unread(entry: ChatEntry): number {
    const { read, chat } = entry;
    if (read === undefined) return 0;
    return Math.max(0, chat.head_sequence - Math.max(read, this.#kept(chat.chat_id) ?? 0));
  }

  /** The unread messages of all chats. */
  get unreadTotal(): number {
    return [...this.#entries.values()].reduce((sum, entry) => sum + this.unread(entry), 0);
  }

  /** The users who are typing in a chat. */
  typing(chat_id: string): string[] {
    return [...(this.#typing.get(chat_id) ?? [])];
  }

  /** The conversation of a chat, as far as it is loaded. */
  conversation(chat_id: string): Conversation {
    let conversation = this.#conversations.get(chat_id);
    if (conversation === undefined) {
      conversation = new Conversation(this.#client, chat_id, this.#user_id);
      conversation.drafts = this.#draftsOf(chat_id);
      const [oldest] = this.#conversations.keys();
      if (this.#conversations.size >= CONVERSATIONS_MAX && oldest !== undefined) {
        this.#drop(oldest);
      }
    } else this.#conversations.delete(chat_id);
    this.#conversations.set(chat_id, conversation);
    return conversation;
  }

  /** Marks all messages of a chat as read. */
  markRead(chat_id: string): void {
    const entry = this.#entries.get(chat_id);
    if (entry === undefined || this.unread(entry) === 0) return;
    this.#read(entry, entry.chat.head_sequence);
    this.changed();
  }

  /** Loads the list. */
  async load(): Promise<void> {
    try {
      let cursor: string | undefined;
      const missing = new Set(this.#entries.keys());
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const more = cursor === undefined ? {} : { cursor };
        const { items, next_cursor } = await this.#client.rest.listChats({ limit: PAGE, ...more });
        for (const { last_acked_sequence, last_message, ...chat } of items) {
          missing.delete(chat.chat_id);
          const entry = this.#put(chat, last_acked_sequence);
          if (last_message !== undefined) this.#setLast(entry, last_message);
        }
        cursor = next_cursor ?? undefined;
        if (cursor === undefined) break;
      }
      // A removal from a chat during the disconnect was not reported.
      if (cursor === undefined) for (const chat_id of missing) this.#remove(chat_id);
      this.isLoaded = true;
      this.error = undefined;
      for (const chat_id of this.#unlisted.keys()) void this.#fetch(chat_id);
    } catch (error) {
      this.error = errorText(error);
    }
    this.changed();
  }

  /** Creates a chat, or finds the existing direct one; returns its id. */
  async create(member_ids: string[], name: string | undefined): Promise<string> {
    member_ids.forEach(requireValidName);
    const isDirect = member_ids.length === 1 && name === undefined;
    const chat = await this.#client.rest.createChat(
      isDirect
        ? { type: "direct", member_ids }
        : { type: "group", member_ids, ...(name === undefined ? {} : { name }) },
    );
    this.#put(chat);
    this.changed();
    return chat.chat_id;
  }

  /** Adds a member to a group. */
  async addMember(chat_id: string, user_id: string): Promise<void> {
    requireValidName(user_id);
    await this.#client.rest.addMember(chat_id, user_id);
    this.#put(await this.#client.rest.getChat(chat_id));
    this.changed();
  }

  /** Makes another member the owner of a group; the previous owner becomes an admin. */
  async makeOwner(chat_id: string, user_id: string): Promise<void> {
    await this.#client.rest.setRole(chat_id, user_id, "owner");
    this.#put(await this.#client.rest.getChat(chat_id));
    this.changed();
  }

  /** Removes a member from a group. */
  async removeMember(chat_id: string, user_id: string): Promise<void> {
    await this.#client.rest.removeMember(chat_id, user_id);
    this.#put(await this.#client.rest.getChat(chat_id));
    this.changed();
  }

  /** Leaves a group. */
  async leave(chat_id: string): Promise<void> {
    await this.#client.rest.leaveChat(chat_id);
    this.#remove(chat_id);
    this.changed();
  }

  #take(message: Message): void {
    const { chat_id } = message;
    this.#conversations.get(chat_id)?.take(message);
    const entry = this.#entries.get(chat_id);
    if (entry === undefined) this.#takeUnlisted(message);
    else this.#setLast(entry, message);
    this.changed();
  }

  /** Takes a message of a chat that is not in the list: not yet, or beyond its pages. */
  #takeUnlisted(message: Message): void {
    const { chat_id } = message;
    const known = this.#unlisted.get(chat_id);
    this.#unlisted.set(chat_id, { first: known?.first ?? message, last: message });
    if (this.isLoaded && known === undefined) void this.#fetch(chat_id);
  }

  async #readOutbox(): Promise<void> {
    // If the storage cannot be read, only the messages that this page is sending are shown.
    this.#drafts = await this.#client.outbox.list().catch(() => []);
    for (const [chat_id, conversation] of this.#conversations) {
      conversation.drafts = this.#draftsOf(chat_id);
    }
  }

  #draftsOf(chat_id: string): Draft[] {
    return this.#drafts.filter((draft) => draft.chat_id === chat_id);
  }

  async #fetch(chat_id: string): Promise<void> {
    try {
      this.#put(await this.#client.rest.getChat(chat_id));
    } catch (error) {
      this.#unlisted.delete(chat_id);
      this.error = errorText(error);
    }
    this.changed();
  }

  /** Stores the description of a chat, with the user's watermark if it is known. */
  #put(chat: Chat, acked?: number): ChatEntry {
    const { chat_id } = chat;
    const known = this.#entries.get(chat_id);
    const unlisted = this.#unlisted.get(chat_id);
    const head_sequence = Math.max(chat.head_sequence, known?.chat.head_sequence ?? 0);
    const read = known?.read ?? this.#kept(chat_id);
    const entry: ChatEntry = { chat: { ...chat, head_sequence }, last: known?.last, read };
    this.#entries.set(chat_id, entry);
    this.#unlisted.delete(chat_id);
    if (read === undefined) {
      // Messages that arrived meanwhile were received, but not read.
      const before = unlisted === undefined ? undefined : unlisted.first.sequence - 1;
      const first = Math.min(acked ?? Infinity, before ?? Infinity);
      if (first !== Infinity) this.#read(entry, first);
      else if (this.isLoaded) this.#read(entry, 0);
    }
    if (unlisted !== undefined) this.#setLast(entry, unlisted.last);
    this.onMembers(chat.members.map((member) => member.user_id));
    return entry;
  }

  #remove(chat_id: string): void {
    this.#entries.delete(chat_id);
    this.#drop(chat_id);
    this.#typing.delete(chat_id);
    this.#unlisted.delete(chat_id);
  }

  /** Closes and removes a conversation. */
  #drop(chat_id: string): void {
    this.#conversations.get(chat_id)?.close();
    this.#conversations.delete(chat_id);
  }

  #setLast(entry: ChatEntry, message: Message): void {
    if (message.sequence >= (entry.last?.sequence ?? 0)) entry.last = message;
    entry.chat.head_sequence = Math.max(entry.chat.head_sequence, message.sequence);
    // The sender of a message has read the messages before it.
    if (message.sender_id === this.#user_id) this.#read(entry, message.sequence);
  }

  #read(entry: ChatEntry, sequence: number): void {
    entry.read = Math.max(entry.read ?? 0, sequence);
    localStorage.setItem(this.#key(entry.chat.chat_id), String(entry.read));
  }

  #kept(chat_id: string): number | undefined {
    const kept = localStorage.getItem(this.#key(chat_id));
    return kept === null ? undefined : Number(kept);
  }

  #key(chat_id: string): string {
    return `heartline.read.${this.#user_id}.${chat_id}`;
  }
}

function lastAt(entry: ChatEntry): string {
  return entry.last?.created_at ?? entry.chat.created_at;
}

/** The message of an error. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
