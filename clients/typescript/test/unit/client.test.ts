/** A whole client on sockets of the test's own, by the test's own clock. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { WebSocketLike } from "../../src/connection.js";
import { Client, type ClientOptions, MemoryStorage, type Storage } from "../../src/index.js";
import { type ClientFrame, DEFAULT_LIMITS } from "../../src/protocol.gen.js";
import { Locks } from "../harness/locks.js";
import { FakePage } from "../harness/page.js";

class FakeWebSocket implements WebSocketLike {
  static readonly all: FakeWebSocket[] = [];
  readonly bufferedAmount = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror: (() => void) | null = null;
  readonly sent: ClientFrame[] = [];

  constructor(
    readonly url: string,
    readonly protocols: string[],
  ) {
    FakeWebSocket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as ClientFrame);
  }

  close(): void {}

  say(frame: object): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }

  establish(): void {
    const timing = { heartbeat_interval_ms: 5000, heartbeat_timeout_ms: 10_000 };
    this.onopen?.();
    this.say({ type: "connection_established", user_id: "ana", limits: DEFAULT_LIMITS, ...timing });
  }

  /** Answers the question for the manifest with one chat. */
  manifest(chat: { chat_id: string; head_sequence: number; last_acked_sequence: number }): void {
    for (const frame of this.of("sync_manifest")) {
      this.say({ type: "sync_manifest", request_id: frame.request_id, chats: [chat] });
    }
  }

  /** Somebody said something. */
  push(chat_id: string, sequence: number): void {
    const about = { message_id: `id-${sequence}`, client_message_id: `${sequence}` };
    this.say({ type: "message", chat_id, sequence, sender_id: "bo", content: "hello", ...about });
  }

  of<T extends ClientFrame["type"]>(type: T): Extract<ClientFrame, { type: T }>[] {
    return this.sent.filter((frame) => frame.type === type) as Extract<ClientFrame, { type: T }>[];
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeWebSocket.all.length = 0;
});
afterEach(() => {
  vi.useRealTimers();
});

const settled = () => vi.advanceTimersByTimeAsync(0);

function client(options: Partial<ClientOptions> = {}): Client {
  const url = "http://127.0.0.1:7400";
  return new Client({ url, token: "a.b.c", WebSocket: FakeWebSocket, ...options });
}

/** Lets a client connect as far as its socket. */
async function opening(made: Client): Promise<FakeWebSocket> {
  made.connect().catch(() => {});
  await settled();
  return FakeWebSocket.all.at(-1) as FakeWebSocket;
}

async function connected(made: Client): Promise<FakeWebSocket> {
  const socket = await opening(made);
  socket.establish();
  await settled();
  return socket;
}

test.each(["reconnecting", "next attempt"])("closed by a listener for %s it stays closed", async (what) => {
  const made = client();
  if (what === "next attempt") made.onNextAttempt(() => void made.close());
  else made.onState((state) => void (state === what && made.close()));
  const socket = await connected(made);
  socket.onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(made.state).toBe("closed");
  expect(FakeWebSocket.all.length).toBe(1);
});

test("closed as soon as it is connected it keeps nobody else from sending", async () => {
  const storage = new MemoryStorage({ user_id: "ana" });
  const hasty = client({ storage });
  hasty.onState((state) => void (state === "connected" && hasty.close()));
  await connected(hasty);
  expect(hasty.state).toBe("closed");
  const other = client({ storage });
  const socket = await connected(other);
  other.chat("chat_1").send("hello").catch(() => {});
  await vi.advanceTimersByTimeAsync(4000);
  expect(socket.of("send_message").length).toBe(1);
  await other.close();
});

test("an address that the browser forbids is a failed attempt", async () => {
  let attempts = 0;
  class Forbidden extends FakeWebSocket {
    constructor(url: string, protocols: string[]) {
      super(url, protocols);
      attempts += 1;
      throw new DOMException("mixed content", "SecurityError");
    }
  }
  const made = client({ WebSocket: Forbidden });
  await opening(made);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(attempts).toBeGreaterThan(1);
  await made.close();
});

test("a pause that the server asked for outlasts a frozen page", async () => {
  const page = new FakePage();
  const made = client({ window: page.window, document: page.document });
  const socket = await connected(made);
  const closing = { reason: "server_shutdown", reconnect_allowed: true, reconnect_delay_ms: 8000 };
  socket.say({ type: "connection_closing", ...closing });
  socket.onclose?.({ code: 1001 });
  await settled();
  page.freeze();
  page.resume();
  await vi.advanceTimersByTimeAsync(7000);
  expect(FakeWebSocket.all.length).toBe(1);
  await vi.advanceTimersByTimeAsync(1500);
  expect(FakeWebSocket.all.length).toBe(2);
  await made.close();
});

test("what nobody was handed is not acknowledged", async () => {
  const made = client();
  const socket = await connected(made);
  socket.manifest({ chat_id: "chat_1", head_sequence: 2000, last_acked_sequence: 100 });
  for (let second = 0; second < 10; second += 1) {
    await vi.advanceTimersByTimeAsync(1000);
    socket.say({ type: "heartbeat_ack" });
  }
  expect(socket.of("ack")).toEqual([]);
  await made.close();
});

test("a chat that is renamed before it is known does not bring what was read", async () => {
  const made = client();
  made.onMessage(() => {});
  const socket = await connected(made);
  const chat = { chat_id: "chat_1", type: "group", name: "x", members: [], head_sequence: 1000 };
  socket.say({ type: "chat_changed", chat_id: "chat_1", change: "renamed", chat });
  socket.manifest({ chat_id: "chat_1", head_sequence: 1000, last_acked_sequence: 1000 });
  await vi.advanceTimersByTimeAsync(2000);
  expect(socket.of("sync_request")).toEqual([]);
  await made.close();
});

test("a page that is looked at takes the right to send from one that does not send", async () => {
  const memory = new MemoryStorage({ user_id: "ana" });
  const storage: Storage = Object.assign(memory, { lock_name: "tabs" });
  const [locks, page] = [new Locks(), new FakePage()];
  page.hide();
  const still = client({ storage, locks });
  const stillSocket = await connected(still);
  const shown = client({ storage, locks, window: page.window, document: page.document });
  const shownSocket = await connected(shown);
  const passes = async (seconds: number) => {
    for (let second = 0; second < seconds; second += 1) {
      await vi.advanceTimersByTimeAsync(1000);
      for (const socket of [stillSocket, shownSocket]) socket.say({ type: "heartbeat_ack" });
    }
  };
  const sent = () => shownSocket.of("send_message").map(({ content }) => content);
  shown.chat("chat_1").send("hello").catch(() => {});
  await passes(15);
  expect(sent()).toEqual([]);
  page.show();
  await passes(10);
  expect(sent()).toEqual(["hello"]);
  // The other one knows that it no longer sends, and does again when it can.
  const before = stillSocket.of("send_message").length;
  still.chat("chat_2").send("good morning").catch(() => {});
  await passes(1);
  expect([stillSocket.of("send_message").length, sent().at(-1)]).toEqual([before, "good morning"]);
  await shown.close();
  await passes(1);
  expect(stillSocket.of("send_message").at(-1)).toMatchObject({ content: "good morning" });
  await still.close();
});

test("a token that is refreshed while it connects is in force afterwards", async () => {
  let number = 0;
  const made = client({ token: () => `token.${(number += 1)}.x` });
  const socket = await opening(made);
  expect(socket.protocols).toContain("bearer.token.1.x");
  await made.refreshToken();
  socket.establish();
  await settled();
  expect(socket.of("refresh_token")).toMatchObject([{ token: "token.2.x" }]);
  await made.close();
});

test("why there is no connection is told, until there is one", async () => {
  let isSignedIn = false;
  const token = () => {
    if (isSignedIn) return "a.b.c";
    throw new Error("sign in first");
  };
  const made = client({ token });
  await opening(made);
  expect(made.last_error).toMatchObject({ message: "sign in first" });
  isSignedIn = true;
  await vi.advanceTimersByTimeAsync(3000);
  FakeWebSocket.all.at(-1)?.establish();
  expect([made.state, made.last_error]).toEqual(["connected", undefined]);
  await made.close();
});

test("a message of a chat whose making was not heard of comes", async () => {
  const made = client();
  const heard: number[] = [];
  made.onMessage((message) => void heard.push(message.sequence));
  const socket = await connected(made);
  socket.manifest({ chat_id: "chat_1", head_sequence: 0, last_acked_sequence: 0 });
  await settled();
  socket.push("chat_2", 1);
  await settled();
  expect(socket.of("sync_manifest").length).toBe(2);
  // Messages that arrive meanwhile are not requested twice.
  socket.push("chat_2", 2);
  socket.manifest({ chat_id: "chat_2", head_sequence: 2, last_acked_sequence: 0 });
  await vi.advanceTimersByTimeAsync(2000);
  expect(heard).toEqual([1, 2]);
  expect(socket.of("sync_manifest").length).toBe(2);
  await made.close();
});

test("a chat that is not in the manifest being read is asked for afterwards", async () => {
  const made = client();
  const heard: number[] = [];
  made.onMessage((message) => void heard.push(message.sequence));
  const socket = await connected(made);
  socket.push("chat_2", 1);
  socket.manifest({ chat_id: "chat_1", head_sequence: 0, last_acked_sequence: 0 });
  await settled();
  expect(socket.of("sync_manifest").length).toBe(2);
  // A chat that is in no manifest is not looked for again and again.
  socket.manifest({ chat_id: "chat_1", head_sequence: 0, last_acked_sequence: 0 });
  await vi.advanceTimersByTimeAsync(2000);
  expect([heard, socket.of("sync_manifest").length]).toEqual([[], 2]);
  await made.close();
});

test("an ack of an unknown message tells that its number exists", async () => {
  const made = client();
  made.onMessage(() => {});
  const socket = await connected(made);
  socket.manifest({ chat_id: "chat_1", head_sequence: 4, last_acked_sequence: 4 });
  const ack = { request_id: "own", chat_id: "chat_1", client_message_id: "own", sequence: 5 };
  socket.say({ type: "message_ack", ...ack });
  await vi.advanceTimersByTimeAsync(1000);
  expect(socket.of("sync_request")).toMatchObject([{ chat_id: "chat_1", after_sequence: 4 }]);
  await made.close();
});
