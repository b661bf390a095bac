/** How often a party tries to get in, on a clock of its own. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Party, type PartyOptions } from "../../src/party/party.js";
import { FakeServer } from "./fake_server.js";
import { BOARD } from "./player.js";

let party: Party;
beforeEach(() => {
  vi.useFakeTimers();
  FakeServer.reset();
});
afterEach(() => {
  party.close();
  vi.useRealTimers();
});

/** Begins to join, and lets some time pass. */
async function join(milliseconds: number, options: Partial<PartyOptions> = {}): Promise<void> {
  party = new Party({ url: "http://nowhere", WebSocket: FakeServer, storage: null, ...options });
  party.join("attempts", BOARD).catch(() => {});
  await vi.advanceTimersByTimeAsync(milliseconds);
}

describe("a token that is refused", () => {
  const other = () => {
    let given = 0;
    return () => `token.${(given += 1)}`;
  };

  it("is followed by one other token, and that is the last", async () => {
    FakeServer.refusal = 4401;
    await join(60_000, { token: other() });
    expect(party.state).toMatchObject({ status: "failed", error: { code: "UNAUTHORIZED" } });
    expect(FakeServer.sockets).toBe(2);
  });

  it("is forgotten once another is taken", async () => {
    FakeServer.refusal = 4401;
    await join(0, { token: other() });
    FakeServer.refusal = null;
    await vi.advanceTimersByTimeAsync(2000);
    expect(party.state.status).toBe("live");
    FakeServer.refusal = 4401;
    FakeServer.last.end();
    await vi.advanceTimersByTimeAsync(1500);
    expect(FakeServer.sockets).toBe(3);
    FakeServer.refusal = null;
    await vi.advanceTimersByTimeAsync(3000);
    expect(party.state.status).toBe("live");
  });
});

describe.each([1012, 4403])("a close with %i", (code) => {
  it("leads back at once from a session", async () => {
    await join(2000);
    expect(party.state.status).toBe("live");
    FakeServer.last.end(code);
    await vi.advanceTimersByTimeAsync(500);
    expect(party.state.status).toBe("live");
    expect(FakeServer.sockets).toBe(2);
  });

  it("is a refusal to whoever was not let in, with growing pauses", async () => {
    FakeServer.refusal = code;
    await join(60_000);
    expect(party.state.status).toBe("joining");
    expect(FakeServer.sockets).toBeGreaterThan(4);
    expect(FakeServer.sockets).toBeLessThan(9);
  });
});
