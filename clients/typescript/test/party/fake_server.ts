/** A server for tests that have a clock of their own: a socket that answers by itself. */
import type { WebSocketLike } from "../../src/connection.js";
import type { RawError } from "../../src/party/error.js";
import { orderHash, stateHash } from "../../src/party/hash.js";
import { EMPTY } from "../../src/party/queue.js";
import { BOARD, type Message } from "./player.js";

/** The operations of the fake server. */
const NAMES = /joinSession|leaveSession|queueUpdates|sessionUpdates|queueState|addQueueItem/;

/** A server that answers everything but edits, unless told to. */
export class FakeServer implements WebSocketLike {
  /** How often each was asked for. */
  static asked: Record<string, number> = {};
  /** How many sockets there were. */
  static sockets = 0;
  static isDown = false;
  static last: FakeServer;
  /** Whether it answers edits, too, though never with their event. */
  static answersEdits = false;
  /** Values that the server reports instead of its own. */
  static head = {};
  /** Values that whole states have instead of the real ones. */
  static state = {};
  /** Whether it is there but says nothing any more. */
  static isSilent = false;
  /** How long each of its answers takes. */
  static delayMs = 0;
  /** The code with which it closes instead of acknowledging. */
  static refusal: number | null = null;
  /** The answer to joins, if it is not the usual one. */
  static joinError: RawError | null = null;
  /** The last id under which each was asked for. */
  readonly #ids: Record<string, string> = {};
  bufferedAmount = 0;
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: never) => void) | null = null;
  onclose: ((event: never) => void) | null = null;
  onerror: ((event: never) => void) | null = null;

  constructor() {
    FakeServer.last = this;
    FakeServer.sockets += 1;
    queueMicrotask(() => (FakeServer.isDown ? this.end() : this.onopen?.(undefined as never)));
  }

  /** A server that does nothing special. */
  static reset(): void {
    FakeServer.asked = {};
    FakeServer.head = {};
    FakeServer.state = {};
    FakeServer.sockets = FakeServer.delayMs = 0;
    FakeServer.answersEdits = FakeServer.isDown = FakeServer.isSilent = false;
    FakeServer.refusal = FakeServer.joinError = null;
  }

  /** The connection ends: it breaks, or never was one, unless there is a code for it. */
  end(code = 1006): void {
    this.onclose?.({ code, reason: "" } as never);
  }

  /** Tells a stream something. */
  tell(stream: string, data: Message): void {
    this.#say({ type: "next", id: this.#ids[stream], payload: { data } });
  }

  /** A stream ends, though the connection does not. */
  endStream(stream: string): void {
    this.#say({ type: "complete", id: this.#ids[stream] });
  }

  send(text: string): void {
    const { type, id, payload } = JSON.parse(text) as Message;
    if (type === "connection_init") this.#initialise();
    if (type === "ping") this.#say({ type: "pong" });
    if (type !== "subscribe") return;
    const name = NAMES.exec(payload.query)?.[0] as string;
    FakeServer.asked[name] = (FakeServer.asked[name] ?? 0) + 1;
    this.#ids[name] = id;
    if (name === "joinSession" && FakeServer.joinError !== null) {
      return this.#say({ type: "error", id, payload: [FakeServer.joinError] });
    }
    const answer = this.#answers()[name];
    if (answer === undefined) return;
    const data = name === "queueState" ? { session: { queueState: answer } } : { [name]: answer };
    this.#say({ type: "next", id, payload: { data } });
    if (name !== "queueUpdates") this.#say({ type: "complete", id });
  }

  close(): void {}

  #initialise(): void {
    const { refusal } = FakeServer;
    if (refusal !== null) {
      return this.#later(() => this.end(refusal));
    }
    this.#say({ type: "connection_ack" });
  }

  #answers(): Record<string, unknown> {
    const { queue, current } = EMPTY;
    const hashes = { stateHash: stateHash(queue, current), orderHash: orderHash(queue, current) };
    const state = { sequence: 1, incarnation: 0, queue, currentClimbQueueItem: null, ...hashes };
    const ana = { id: "ana", username: "Ana", isLeader: true, avatarUrl: null };
    return {
      joinSession: { ...BOARD, name: null, clientId: "ana", resumeToken: null, users: [ana] },
      leaveSession: true,
      queueUpdates: { __typename: "FullSync", state: { ...state, ...FakeServer.state } },
      addQueueItem: FakeServer.answersEdits ? { uuid: "" } : undefined,
      queueState: { ...state, ...FakeServer.head },
    };
  }

  #say(message: Message): void {
    if (FakeServer.isSilent) return;
    this.#later(() => this.onmessage?.({ data: JSON.stringify(message) } as never));
  }

  #later(act: () => void): void {
    FakeServer.delayMs === 0 ? queueMicrotask(act) : setTimeout(act, FakeServer.delayMs);
  }
}
