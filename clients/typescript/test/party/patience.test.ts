/** How long a party waits unless told otherwise, on a clock of its own. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { WebSocketLike } from "../../src/connection.js";
import { EMPTY } from "../../src/party/queue.js";
import { orderHash, stateHash } from "../../src/party/hash.js";
import { Party } from "../../src/party/party.js";
import { item } from "./climbs.js";
import { BOARD, type Message } from "./player.js";

/** A server that answers everything but edits, unless told to. */
class FakeServer implements WebSocketLike {
  /** How often each was asked for. */
  static asked: Record<string, number> = {};
  static isDown = false;
  static last: FakeServer;
  /** Whether it answers edits, too, though never with their event. */
  static answersEdits = false;
  /** What it says of itself otherwise than it is, when it is asked. */
  static head = {};
  bufferedAmount = 0;
  onopen: ((event: never) => void) | null = null;
  onmessage: ((event: never) => void) | null = null;
  onclose: ((event: never) => void) | null = null;
  onerror: ((event: never) => void) | null = null;

  constructor() {
    FakeServer.last = this;
    queueMicrotask(() => (FakeServer.isDown ? this.end() : this.onopen?.(undefined as never)));
  }

  /** The connection breaks, or never was one. */
  end(): void {
    this.onclose?.({ code: 1006, reason: "" } as never);
  }

  send(text: string): void {
    const { type, id, payload } = JSON.parse(text) as Message;
    if (type === "connection_init") this.#say({ type: "connection_ack" });
    if (type === "ping") this.#say({ type: "pong" });
    if (type !== "subscribe") return;
    const { queue, current } = EMPTY;
    const hashes = { stateHash: stateHash(queue, current), orderHash: orderHash(queue, current) };
    const state = { sequence: 1, incarnation: 0, queue, currentClimbQueueItem: null, ...hashes };
    const ana = { id: "ana", username: "Ana", isLeader: true, avatarUrl: null };
    const answers: Record<string, unknown> = {
      joinSession: { ...BOARD, name: null, clientId: "ana", resumeToken: null, users: [ana] },
      queueUpdates: { __typename: "FullSync", state },
      addQueueItem: FakeServer.answersEdits ? { uuid: "" } : undefined,
      queueState: { ...state, ...FakeServer.head },
    };
    const name = /joinSession|queueUpdates|sessionUpdates|queueState|addQueueItem/.exec(
      payload.query,
    )?.[0] as string;
    FakeServer.asked[name] = (FakeServer.asked[name] ?? 0) + 1;
    const answer = answers[name];
    if (answer === undefined) return;
    const data = name === "queueState" ? { session: { queueState: answer } } : { [name]: answer };
    this.#say({ type: "next", id, payload: { data } });
    if (name !== "queueUpdates") this.#say({ type: "complete", id });
  }

  close(): void {}

  #say(message: Message): void {
    queueMicrotask(() => this.onmessage?.({ data: JSON.stringify(message) } as never));
  }
}

let party: Party;
beforeEach(async () => {
  vi.useFakeTimers();
  FakeServer.asked = {};
  FakeServer.head = {};
  FakeServer.answersEdits = FakeServer.isDown = false;
  party = new Party({ url: "http://nowhere", WebSocket: FakeServer, storage: null });
  void party.join("quiet", BOARD);
  await vi.advanceTimersByTimeAsync(10);
  expect(party.state.status).toBe("live");
});
afterEach(() => {
  party.close();
  vi.useRealTimers();
});

it("compares a quiet queue with the server's every sixty seconds", async () => {
  await vi.advanceTimersByTimeAsync(59_900);
  expect(FakeServer.asked["queueState"]).toBeUndefined();
  await vi.advanceTimersByTimeAsync(200);
  expect(FakeServer.asked["queueState"]).toBe(1);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(FakeServer.asked).toMatchObject({ queueState: 2, queueUpdates: 1 });
  let fetched = 1;
  for (const head of [{ stateHash: "other" }, { orderHash: "other" }, { incarnation: 1 }]) {
    FakeServer.head = head;
    await vi.advanceTimersByTimeAsync(60_000);
    fetched += 1;
    expect(FakeServer.asked).toMatchObject({ queueState: fetched + 1, queueUpdates: fetched });
  }
});

it("takes an edit back that is without an answer for thirty seconds", async () => {
  const adding = party.add(item(1)).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(29_900);
  expect(party.state).toMatchObject({ pendingEdits: 1, queue: [item(1)] });
  await vi.advanceTimersByTimeAsync(200);
  expect(party.state).toMatchObject({ pendingEdits: 0, queue: [] });
  expect(await adding).toMatchObject({ code: "TIMEOUT", outcome: "unknown" });
});

it("takes an edit back that could not be sent for thirty seconds", async () => {
  FakeServer.isDown = true;
  FakeServer.last.end();
  await vi.advanceTimersByTimeAsync(0);
  const adding = party.add(item(1)).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(29_900);
  expect(party.state).toMatchObject({ status: "reconnecting", pendingEdits: 1 });
  await vi.advanceTimersByTimeAsync(200);
  expect(party.state).toMatchObject({ status: "reconnecting", pendingEdits: 0, queue: [] });
  expect(await adding).toMatchObject({ code: "TIMEOUT", outcome: "rejected" });
});

it("leaves no timer behind when it is closed", async () => {
  const adding = party.add(item(1)).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(10);
  party.close();
  expect(await adding).toMatchObject({ code: "NOT_IN_A_SESSION" });
  await vi.advanceTimersByTimeAsync(0);
  expect(vi.getTimerCount()).toBe(0);

  FakeServer.answersEdits = true;
  void party.join("again", BOARD);
  await vi.advanceTimersByTimeAsync(10);
  await party.add(item(2));
  expect(party.state.pendingEdits).toBe(1);
  party.close();
  await vi.advanceTimersByTimeAsync(0);
  expect(vi.getTimerCount()).toBe(0);
});
