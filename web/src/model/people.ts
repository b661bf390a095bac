/** Presence, contacts and privacy. */
import type { Client, Presence, Visibility } from "heartline";
import { errorText } from "./chats.js";
import { requireValidName } from "./name.js";
import { Observable } from "./observable.js";
import type { OpenConnection, Operator } from "./server.js";

/** People and privacy. */
export class People extends Observable {
  readonly #client: Client;
  readonly #user_id: string;
  readonly #operator: Operator | undefined;
  readonly #followed = new Set<string>();
  /**
   * The changes under way, and the number of finished ones: data read during a change may be older.
   */
  #changing = 0;
  #changes = 0;
  contacts: string[] = [];
  visibility: Visibility | undefined;
  /** The user's own connections, on every device; undefined without an operator. */
  devices: OpenConnection[] | undefined;
  error: string | undefined;

  constructor(client: Client, user_id: string, operator: Operator | undefined) {
    super();
    this.#client = client;
    this.#user_id = user_id;
    this.#operator = operator;
    client.presence.onChange(() => this.changed());
    client.onState(() => this.changed());
  }

  /** Subscribes to the presence of users. */
  follow(user_ids: string[]): void {
    const limit = this.#client.connection?.limits.presence_users_per_connection ?? 1000;
    const fresh = user_ids.filter((id) => id !== this.#user_id && !this.#followed.has(id));
    const fitting = fresh.slice(0, Math.max(0, limit - this.#followed.size));
    if (fitting.length === 0) return;
    for (const id of fitting) this.#followed.add(id);
    this.#client.presence.subscribe(fitting);
  }

  /** The presence of a user. The user of this page is online while connected. */
  presence(user_id: string): Presence {
    if (user_id !== this.#user_id) return this.#client.presence.get(user_id);
    return { user_id, status: this.#client.state === "connected" ? "online" : "unknown" };
  }

  /** Loads contacts, the privacy setting and the user's devices. */
  async load(): Promise<void> {
    await this.#try(async () => {
      const before = this.#changes;
      const [contacts, { visibility }] = await Promise.all([
        this.#client.rest.listContacts({ limit: 200 }),
        this.#client.rest.getVisibility(),
      ]);
      if (this.#changing === 0 && this.#changes === before) {
        this.contacts = contacts.items.map((contact) => contact.user_id);
        this.visibility = visibility;
        this.follow(this.contacts);
      }
      this.devices = await this.#operator?.connectionsOf(this.#user_id);
    });
  }

  /** Sets who can see the user. The choice is shown at once, and reverted if it is rejected. */
  async setVisibility(visibility: Visibility): Promise<void> {
    const former = this.visibility;
    this.visibility = visibility;
    this.changed();
    await this.#change(async () => {
      try {
        await this.#client.rest.setVisibility(visibility);
      } catch (error) {
        if (this.visibility === visibility) this.visibility = former;
        throw error;
      }
    });
  }

  async addContact(user_id: string): Promise<void> {
    await this.#change(async () => {
      requireValidName(user_id);
      await this.#client.rest.putContact(user_id);
      this.contacts = [...new Set([...this.contacts, user_id])].sort();
      this.follow([user_id]);
    });
  }

  async removeContact(user_id: string): Promise<void> {
    await this.#change(async () => {
      await this.#client.rest.removeContact(user_id);
      this.contacts = this.contacts.filter((id) => id !== user_id);
    });
  }

  async #change(action: () => Promise<void>): Promise<void> {
    this.#changing += 1;
    await this.#try(action);
    this.#changing -= 1;
    this.#changes += 1;
  }

  async #try(action: () => Promise<void>): Promise<void> {
    try {
      await action();
      this.error = undefined;
    } catch (error) {
      this.error = errorText(error);
    }
    this.changed();
  }
}
