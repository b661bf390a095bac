/** One page of a tab after the other. */
import { HeartlineError, type Message, type Receipt } from "../../src/index.js";
import { FakePage } from "./page.js";
import type { User } from "./user.js";

/** A tab whose pages come and go, and everything that was said and heard in it. */
export class Pages {
  readonly page = new FakePage();
  /** The client of each page so far. */
  readonly users: User[] = [];
  /** Every word that was given to a page, by chat. */
  readonly words = new Map<string, string[]>();
  readonly receipts: Receipt[] = [];
  /** The errors with which no send may end. */
  readonly surprises: unknown[] = [];
  /** Sends that have not ended yet. */
  unsettled = 0;
  /** The client of the present page. */
  user: User;
  #number = 0;
  #isReloading = false;

  constructor(
    readonly name: string,
    readonly makeUser: (page: FakePage) => User,
  ) {
    this.user = this.#open();
  }

  /** Says something new, if there is a page. */
  say(chat_id: string): void {
    if (this.#isReloading) return;
    this.#number += 1;
    const word = `${this.name}-${this.#number}`;
    this.words.set(chat_id, [...(this.words.get(chat_id) ?? []), word]);
    this.unsettled += 1;
    this.user.client
      .chat(chat_id)
      .send(word, { client_message_id: word })
      .then((receipt) => this.receipts.push(receipt))
      .catch((error: unknown) => {
        // The page is over; the next one sends it.
        const isClosed = error instanceof HeartlineError && error.code === "CLOSED";
        if (!isClosed) this.surprises.push(error);
      })
      .finally(() => (this.unsettled -= 1));
  }

  /** The messages that all pages received in a chat. */
  heard(chat_id: string): Message[] {
    return this.users.flatMap((user) => user.in(chat_id));
  }

  /** The page goes, and another one comes. */
  async reload(): Promise<void> {
    this.#isReloading = true;
    await this.user.close();
    this.#isReloading = false;
    this.user = this.#open();
  }

  #open(): User {
    const user = this.makeUser(this.page);
    user.listen();
    this.users.push(user);
    void user.client.connect().catch(() => {});
    return user;
  }
}
