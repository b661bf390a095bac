/** How often a party tries to get in, on a clock of its own. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Party, type PartyOptions } from "../../src/party/party.js";
import { FakePage } from "../harness/page.js";
import { FakeServer } from "./fake_server.js";
import { BOARD, TabStorage } from "./player.js";

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

describe("a token that has ended", () => {
  it("is not given to the server again", async () => {
    const needs: string[] = [];
    let kept = "token.1";
    const token = (need: string) => {
      needs.push(need);
      if (need === "refused") kept = "token.2";
      return kept;
    };
    await join(2000, { token });
    FakeServer.last.end(4403);
    await vi.advanceTimersByTimeAsync(500);
    expect(party.state.status).toBe("live");
    expect(needs).toEqual(["connect", "refused"]);
    // It was taken, so it is as good as any for the next connection.
    FakeServer.last.end();
    await vi.advanceTimersByTimeAsync(3000);
    expect([party.state.status, needs.at(-1)]).toEqual(["live", "connect"]);
  });

  it("is the end where there is no other", async () => {
    await join(2000, { token: "the.only.one" });
    FakeServer.last.end(4403);
    await vi.advanceTimersByTimeAsync(1000);
    expect(party.state).toMatchObject({ status: "failed", error: { code: "UNAUTHORIZED" } });
    expect(FakeServer.sockets).toBe(1);
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

describe("a page that wakes", () => {
  let page: FakePage;
  beforeEach(() => (page = new FakePage()));

  /** Wakes the page ten times a second. */
  async function wakeFor(milliseconds: number): Promise<void> {
    for (let passed = 0; passed < milliseconds; passed += 100) {
      page.show();
      await vi.advanceTimersByTimeAsync(100);
    }
  }

  it("does not shorten a pause that the server asked for", async () => {
    const extensions = { code: "RATE_LIMITED", retry_after_seconds: 30 };
    FakeServer.joinError = { message: "Too many joins", extensions };
    await join(100, page);
    await wakeFor(29_800);
    expect(FakeServer.asked["joinSession"]).toBe(1);
    FakeServer.joinError = null;
    await vi.advanceTimersByTimeAsync(6200);
    expect(party.state.status).toBe("live");
    expect(FakeServer.asked["joinSession"]).toBe(2);
  });

  it("shortens one of its own, but attempts to join are a second apart", async () => {
    FakeServer.joinError = { message: "Busy", extensions: { code: "SERVER_BUSY" } };
    await join(100, page);
    await wakeFor(9400);
    expect(FakeServer.asked["joinSession"]).toBe(10);
  });

  it("shortens one of its own, but attempts to connect are a second apart", async () => {
    FakeServer.isDown = true;
    await join(100, page);
    await wakeFor(9400);
    expect(FakeServer.sockets).toBe(10);
  });

  it("is back at once after a long silence", async () => {
    FakeServer.isDown = true;
    await join(20_000, page);
    const { sockets } = FakeServer;
    FakeServer.isDown = false;
    // Somewhere between two attempts that are sixteen seconds apart.
    await vi.advanceTimersByTimeAsync(2000);
    expect(FakeServer.sockets).toBe(sockets);
    page.tell("online");
    await vi.advanceTimersByTimeAsync(0);
    expect(party.state.status).toBe("live");
  });

  it("keeps a connection that answers, however soon its silence would be counted", async () => {
    FakeServer.delayMs = 20;
    await join(4990, page);
    expect(party.state.status).toBe("live");
    page.show();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(party.state.status).toBe("live");
    expect(FakeServer.sockets).toBe(1);
  });

  it("gives a connection up that does not answer, however often it is asked", async () => {
    await join(100, page);
    FakeServer.isSilent = true;
    await wakeFor(4900);
    expect(party.state.status).toBe("live");
    await wakeFor(200);
    expect(party.state.status).toBe("reconnecting");
  });
});

it("a stream that ends again and again is begun once a second", async () => {
  await join(100);
  for (let passed = 0; passed < 10_000; passed += 100) {
    FakeServer.last.endStream("queueUpdates");
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(FakeServer.asked["joinSession"]).toBe(11);
  expect(FakeServer.sockets).toBe(1);
});

describe("a token provider that never answers", () => {
  it("is asked again after thirty seconds and a pause", async () => {
    let asked = 0;
    const token = () => (asked++ === 0 ? new Promise<string>(() => {}) : "token");
    await join(29_900, { token });
    expect(asked).toBe(1);
    await vi.advanceTimersByTimeAsync(2000);
    expect(party.state.status).toBe("live");
    expect([asked, FakeServer.sockets]).toEqual([2, 1]);
  });

  it("keeps no party open that is closed, and an answer after that opens none", async () => {
    let answer: (token: string) => void = () => {};
    const token = () => new Promise<string>((resolve) => (answer = resolve));
    await join(100, { token });
    party.close();
    expect(vi.getTimerCount()).toBe(0);
    answer("token");
    await vi.advanceTimersByTimeAsync(100);
    expect(FakeServer.sockets).toBe(0);
  });
});

describe("a session that is left while it is joined", () => {
  it("is not entered by the answer", async () => {
    FakeServer.delayMs = 100;
    await join(150);
    void party.leave();
    await vi.advanceTimersByTimeAsync(5000);
    expect(party.state).toMatchObject({ status: "left", members: [], clientId: null });
    expect(FakeServer.asked).toEqual({ joinSession: 1, leaveSession: 1 });
    expect(vi.getTimerCount()).toBe(0);
  });

  it("does not make the next one forgotten by being refused", async () => {
    FakeServer.delayMs = 100;
    FakeServer.joinError = { message: "No", extensions: { code: "FORBIDDEN" } };
    await join(150, { storage: new TabStorage() });
    void party.join("next", BOARD);
    // The refusal is here; the next session is still on its way, and a reload would go on with it.
    await vi.advanceTimersByTimeAsync(75);
    expect(party.remembered?.sessionId).toBe("next");
    FakeServer.joinError = null;
    await vi.advanceTimersByTimeAsync(1000);
    expect(party.state).toMatchObject({ status: "live", sessionId: "next", error: null });
  });
});

describe("a session that is left after", () => {
  it.each<[string, () => void]>([
    ["it has failed", () => FakeServer.last.end(4401)],
    ["it was closed", () => party.close()],
  ])("%s is not gone on with", async (_name, end) => {
    await join(100, { storage: new TabStorage() });
    end();
    await vi.advanceTimersByTimeAsync(100);
    expect(party.remembered?.sessionId).toBe("attempts");
    await party.leave();
    expect(party.remembered).toBeNull();
    expect(await party.resume()).toBeNull();
  });
});
