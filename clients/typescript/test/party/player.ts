/** Clients of the library, and a network between them and the server that can be tampered with. */
import { onTestFinished } from "vitest";
import WebSocket from "ws";
import type { WebSocketConstructor } from "../../src/connection.js";
import { orderHash, stateHash } from "../../src/party/hash.js";
import { Party, type PartyOptions } from "../../src/party/party.js";
import type { PartyStorage } from "../../src/party/remembered.js";
import type { PartyState } from "../../src/party/state.js";
import { eventually } from "../harness/eventually.js";

/** The board of every test. */
export const BOARD = { boardPath: "/kilter/1/10/26_27/40" };

/** Where a server is. */
export const at = (server: { address: string }) => `http://${server.address}`;

/** A party that is closed when its test is finished. */
export function player(url: PartyOptions["url"], options: Partial<PartyOptions> = {}): Party {
  const socket = { WebSocket: WebSocket as unknown as WebSocketConstructor };
  const party = new Party({ url, ...socket, storage: null, ...options });
  onTestFinished(() => party.close());
  return party;
}

/** The uuids of a queue as it is shown. */
export const uuidsOf = ({ queue }: PartyState): string[] => queue.map((item) => item.uuid);

/** The parts of the state that two parties compare. */
export const pictureOf = ({ queue, current }: PartyState): string =>
  `${stateHash(queue, current)} ${orderHash(queue, current)}`;

/** Waits for something to be so. */
export async function becomes(
  party: Party,
  what: string,
  holds: (state: PartyState) => boolean,
): Promise<PartyState> {
  return await eventually(`${what}: ${JSON.stringify(summaryOf(party.state))}`, () =>
    holds(party.state) && party.state,
  );
}

/** The description of a party in a failed test. */
export function summaryOf(state: PartyState): unknown {
  const { status, sequence, pendingEdits, error, members } = state;
  return { status, sequence, pendingEdits, error: error?.message, members: members.length };
}

/** A storage, as a tab has one. */
export class TabStorage implements PartyStorage {
  readonly #kept = new Map<string, string>();

  getItem(key: string): string | null {
    return this.#kept.get(key) ?? null;
  }

  setItem(key: string, value: string): void {
    this.#kept.set(key, value);
  }

  removeItem(key: string): void {
    this.#kept.delete(key);
  }
}

/** A message on a socket, as JSON. */
export type Message = Record<string, any>;

/** Sockets whose messages a test can change or lose. */
export class Wire {
  /** Changes a message of the server: returns the one to pass on, or null to drop it. */
  fromServer: (message: Message) => Message | null = (message) => message;
  /** Observes a message of the client. */
  fromClient: (message: Message) => Message | null = (message) => message;

  get WebSocket(): WebSocketConstructor {
    const wire = this;
    class Tapped extends WebSocket {
      override send(data: any): void {
        const message = wire.fromClient(JSON.parse(String(data)) as Message);
        if (message !== null) {
          super.send(JSON.stringify(message));
        }
      }

      override emit(name: string | symbol, ...given: any[]): boolean {
        if (name !== "message") {
          return super.emit(name, ...given);
        }
        const message = wire.fromServer(JSON.parse(String(given[0])) as Message);
        return message !== null && super.emit(name, Buffer.from(JSON.stringify(message)), false);
      }
    }
    return Tapped as unknown as WebSocketConstructor;
  }
}

/** The queue event in a message, if there is one. */
export function queueEventIn(message: Message): Message | null {
  return message["payload"]?.data?.queueUpdates ?? null;
}
