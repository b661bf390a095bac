/** Whom the user knows: presence, contacts, and who may see the user. */
import type { Client, Presence, Visibility } from "heartline";
import { wordsOf } from "./chats.js";
import { demandName } from "./name.js";
import { Observable } from "./observable.js";
import type { OpenConnection, Operator } from "./server.js";

/** People and privacy. */
export class People extends Observable {
  readonly #client: Client;
  readonly #user_id: string;
  readonly #operator: Operator | undefined;
  readonly #followed = new Set<string>();
  /** Changes under way, and those that have ended: what was read beside one may be older. */
  #changing = 0;
  #changes = 0;
  contacts: string[] = [];
  visibility: Visibility | undefined;
  /** The user's own connections, on every device; undefined if this page may not ask. */
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

  /** Follows people's presence from now on. */
  follow(user_ids: string[]): void {
    const limit = this.#client.connection?.limits.presence_users_per_connection ?? 1000;
    const fresh = user_ids.filter((id) => id !== this.#user_id && !this.#followed.has(id));
    const fitting = fresh.slice(0, Math.max(0, limit - this.#followed.size));
    if (fitting.length === 0) return;
    for (const id of fitting) this.#followed.add(id);
    this.#client.presence.subscribe(fitting);
  }

  /** What is known of somebody. Oneself is online while the connection is. */
  presence(user_id: string): Presence {
    if (user_id !== this.#user_id) return this.#client.presence.get(user_id);
    return { user_id, status: this.#client.state === "connected" ? "online" : "unknown" };
  }

  /** Asks for contacts, the privacy setting and the user's devices. */
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

  /** Chooses who may see the user; it shows at once, and no more if it is refused. */
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
      demandName(user_id);
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
      this.error = wordsOf(error);
    }
    this.changed();
  }
}
