/** The objects of a signed-in user in this tab. */
import { Client, IndexedDbStorage, MemoryStorage } from "heartline";
import { Chats } from "./chats.js";
import { Console } from "./console.js";
import { Faults } from "./faults.js";
import type { Identity } from "./identity.js";
import { Link } from "./link.js";
import { People } from "./people.js";
import { Room } from "./room.js";
import { Operator } from "./server.js";
import { SocketTap } from "./tapped_socket.js";

/** A session. */
export class Session {
  readonly client: Client;
  readonly link: Link;
  readonly chats: Chats;
  readonly people: People;
  readonly room: Room;
  readonly console = new Console();
  /** Undefined unless the server is a development server. */
  readonly faults: Faults | undefined;

  constructor(readonly identity: Identity) {
    const { user_id, device_id } = identity;
    const chatTap = new SocketTap();
    const partyTap = new SocketTap();
    this.client = new Client({
      url: location.origin,
      token: identity.provider,
      device_id,
      storage: "indexedDB" in window ? new IndexedDbStorage({ user_id }) : new MemoryStorage(),
      WebSocket: chatTap.socketClass(),
    });
    const operator = identity.isDevelopment ? new Operator(identity.serviceToken) : undefined;
    this.link = new Link(this.client);
    this.chats = new Chats(this.client, user_id);
    this.people = new People(this.client, user_id, operator);
    this.chats.onMembers = (user_ids) => this.people.follow(user_ids);
    this.room = new Room(identity, partyTap);
    this.console.operator = operator;
    if (operator !== undefined) {
      const { chats, room } = this;
      this.faults = new Faults({ identity, operator, chats, room, chatTap, partyTap });
    }
    void this.client.connect();
  }

  /** Closes everything when the user signs out. */
  async close(): Promise<void> {
    this.chats.close();
    // The next user in this tab must not resume as this member.
    await Promise.all([this.room.leave(), this.client.close()]);
  }
}
