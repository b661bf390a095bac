import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { WebSocketLike } from "../../src/connection.js";
import { DEFAULT_LIMITS, type ServerFrame } from "../../src/protocol.gen.js";
import { Socket, type SocketState } from "../../src/socket.js";
import { type TokenNeed, TokenSource } from "../../src/token.js";

/** A WebSocket whose other end is the test. */
class FakeWebSocket implements WebSocketLike {
  static readonly all: FakeWebSocket[] = [];
  bufferedAmount = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  onerror: (() => void) | null = null;
  readonly sent: string[] = [];

  constructor(
    readonly url: string,
    readonly protocols: string[],
  ) {
    FakeWebSocket.all.push(this);
  }

  send(text: string): void {
    this.sent.push((JSON.parse(text) as { type: string }).type);
  }

  close(): void {}

  say(frame: Record<string, unknown>): void {
    this.onmessage?.({ data: JSON.stringify(frame as unknown as ServerFrame) });
  }

  establish(): void {
    this.onopen?.();
    const timing = { heartbeat_interval_ms: 5000, heartbeat_timeout_ms: 10_000 };
    this.say({ type: "connection_established", user_id: "ana", limits: DEFAULT_LIMITS, ...timing });
  }
}

let socket: Socket;
let states: SocketState[];
const last = () => FakeWebSocket.all.at(-1) as FakeWebSocket;

beforeEach(() => {
  vi.useFakeTimers();
  FakeWebSocket.all.length = 0;
  states = [];
  socket = socketWith(new TokenSource("a.b.c"));
  socket.onState.add((state) => states.push(state));
});
afterEach(() => {
  socket.close();
  vi.useRealTimers();
});

function socketWith(tokens: TokenSource): Socket {
  return new Socket({
    WebSocket: FakeWebSocket,
    urls: ["ws://one", "ws://two"],
    device_id: "tab",
    tokens,
    objection: () => undefined,
    random: () => 0.5,
  });
}

async function connect(): Promise<void> {
  socket.connect();
  await vi.advanceTimersByTimeAsync(0);
  last().establish();
}

test("the token is a subprotocol, and after a failed upgrade in the first frame", async () => {
  socket.connect();
  await vi.advanceTimersByTimeAsync(0);
  expect(last()).toMatchObject({
    url: "ws://one",
    protocols: ["heartline.v1", "device.tab", "bearer.a.b.c"],
  });
  last().onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(1000);
  expect(last()).toMatchObject({ url: "ws://two", protocols: ["heartline.v1", "device.tab"] });
  last().onopen?.();
  last().say({ type: "auth_challenge", code: 401, timeout_ms: 10_000 });
  expect(last().sent).toEqual(["authenticate"]);
});

test("ten failures are shown as offline, and attempts go on", async () => {
  socket.connect();
  await vi.advanceTimersByTimeAsync(0);
  for (let failure = 1; failure <= 12; failure += 1) {
    last().onclose?.({ code: 1006 });
    expect(socket.state).toBe(failure < 10 ? "connecting" : "offline");
    await vi.advanceTimersByTimeAsync(16_000);
    expect(FakeWebSocket.all.length).toBe(failure + 1);
  }
  last().establish();
  expect(socket.state).toBe("connected");
});

test("a server that asks for a pause gets it, whatever wakes the page", async () => {
  await connect();
  const reconnect_allowed = true;
  last().say({
    type: "connection_closing",
    reason: "server_shutdown",
    reconnect_allowed,
    reconnect_delay_ms: 5000,
  });
  expect(socket.isOpen).toBe(false);
  last().onclose?.({ code: 1001 });
  await vi.advanceTimersByTimeAsync(4000);
  socket.wake();
  await vi.advanceTimersByTimeAsync(900);
  expect(FakeWebSocket.all.length).toBe(1);
  await vi.advanceTimersByTimeAsync(200);
  expect(FakeWebSocket.all.length).toBe(2);
});

test("a page that wakes tries at once what waits by the client's own choice", async () => {
  await connect();
  last().onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(1000);
  last().onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(1100);
  expect(FakeWebSocket.all.length).toBe(2);
  socket.wake();
  await vi.advanceTimersByTimeAsync(0);
  expect(FakeWebSocket.all.length).toBe(3);
});

test("it says when the next attempt will be, whenever that changes", async () => {
  const told: (number | undefined)[] = [];
  const seen: unknown[] = [];
  socket.onNextAttempt.add((at) => told.push(at));
  socket.onState.add((state) => seen.push([state, socket.next_attempt_at]));
  await connect();
  expect(told).toEqual([]);
  const begun = Date.now();
  last().onclose?.({ code: 1006 });
  expect(told).toEqual([begun + 1000]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(told).toEqual([begun + 1000, undefined]);
  last().onclose?.({ code: 1006 });
  expect(told.at(-1)).toBe(begun + 3000);
  // Somebody does not want to wait for two seconds; one is the least.
  socket.wake();
  expect(told.at(-1)).toBe(begun + 2000);
  await vi.advanceTimersByTimeAsync(1000);
  last().onclose?.({ code: 1006 });
  expect(told.length).toBe(6);
  socket.close();
  expect([told.at(-1), socket.next_attempt_at]).toEqual([undefined, undefined]);
  expect(seen).toEqual([
    ["connecting", undefined],
    ["connected", undefined],
    ["reconnecting", begun + 1000],
    ["closed", undefined],
  ]);
});

test("a server that leaves a heartbeat unanswered for the timeout is left", async () => {
  await connect();
  await vi.advanceTimersByTimeAsync(5000);
  expect(last().sent).toEqual(["heartbeat"]);
  last().say({ type: "heartbeat_ack", server_time: "" });
  await vi.advanceTimersByTimeAsync(14_900);
  expect(socket.state).toBe("connected");
  await vi.advanceTimersByTimeAsync(200);
  expect(states).toEqual(["connecting", "connected", "reconnecting"]);
});

test("a page that wakes, or is said to be offline, asks with less patience", async () => {
  for (const doubt of [() => socket.wake(), () => socket.offline()]) {
    if (socket.state !== "connected") await connect();
    doubt();
    expect(last().sent.at(-1)).toBe("heartbeat");
    last().say({ type: "heartbeat_ack", server_time: "" });
  }
  socket.wake();
  await vi.advanceTimersByTimeAsync(4900);
  expect(socket.state).toBe("connected");
  await vi.advanceTimersByTimeAsync(200);
  expect(socket.state).toBe("reconnecting");
});

test("a connection that is never established, or never closes, is given up", async () => {
  socket.connect();
  await vi.advanceTimersByTimeAsync(0);
  last().onopen?.();
  await vi.advanceTimersByTimeAsync(15_000);
  await vi.advanceTimersByTimeAsync(1000);
  expect(FakeWebSocket.all.length).toBe(2);
  last().establish();
  const closing = { type: "connection_closing", reason: "session_ended", reconnect_allowed: false };
  last().say({ ...closing, reconnect_delay_ms: 0 });
  await vi.advanceTimersByTimeAsync(8000);
  expect([socket.state, socket.stop_reason]).toEqual(["stopped", "session_ended"]);
});

test("nothing that a later server says ends an older client", async () => {
  await connect();
  last().onmessage?.({ data: "no JSON" });
  last().say({ type: "weather_changed", sky: ["blue"] });
  const closing = { reason: "later", reconnect_allowed: true, reconnect_delay_ms: 0 };
  last().say({ type: "connection_closing", ...closing });
  last().onclose?.({ code: 4999 });
  await vi.advanceTimersByTimeAsync(1000);
  expect(FakeWebSocket.all.length).toBe(2);
});

/** The server refuses the token of the last attempt. */
function refuse(): void {
  const closing = { reconnect_allowed: true, reconnect_delay_ms: 0 };
  last().onopen?.();
  last().say({ type: "connection_closing", reason: "unauthorized", ...closing });
  last().onclose?.({ code: 4401 });
}

test("a good token whose attempt fails otherwise is not taken for the refused one", async () => {
  const needs: TokenNeed[] = [];
  let kept = "token.1.x";
  const tokens = new TokenSource((need) => {
    needs.push(need);
    if (need === "refused") kept = "token.2.x";
    return kept;
  });
  socket = socketWith(tokens);
  socket.connect();
  await vi.advanceTimersByTimeAsync(0);
  refuse();
  await vi.advanceTimersByTimeAsync(2000);
  for (let failure = 1; failure <= 2; failure += 1) {
    last().onclose?.({ code: 1006 });
    await vi.advanceTimersByTimeAsync(8000);
  }
  expect(needs).toEqual(["connect", "refused", "connect", "connect"]);
  last().establish();
  expect(socket.state).toBe("connected");
});

test("the token that is refused is the one in force, not an earlier one", async () => {
  const tokens = new TokenSource((need) => (need === "connect" ? "token.1.x" : "token.2.x"));
  socket = socketWith(tokens);
  await connect();
  socket.offer(await tokens.get("refresh"));
  const expires_at = new Date(Date.now() + 60_000).toISOString();
  last().say({ type: "token_refreshed", request_id: "refresh-1", expires_at });
  refuse();
  await vi.advanceTimersByTimeAsync(2000);
  expect([socket.state, socket.stop_reason]).toEqual(["stopped", "token_refused"]);
});

test("a provider that gives a refused token again is asked for another one", async () => {
  const needs: TokenNeed[] = [];
  const tokens = new TokenSource((need) => {
    needs.push(need);
    return need === "refused" ? "good.2.x" : "bad.1.x";
  });
  socket = socketWith(tokens);
  socket.connect();
  await vi.advanceTimersByTimeAsync(0);
  refuse();
  await vi.advanceTimersByTimeAsync(2000);
  last().onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(8000);
  last().establish();
  expect(socket.state).toBe("connected");
  expect(needs).toEqual(["connect", "refused", "connect", "refused"]);
});
