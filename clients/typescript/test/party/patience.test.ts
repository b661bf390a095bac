/** How long a party waits unless told otherwise, on a clock of its own. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Party } from "../../src/party/party.js";
import { item } from "./climbs.js";
import { FakeServer } from "./fake_server.js";
import { BOARD } from "./player.js";

let party: Party;
beforeEach(async () => {
  vi.useFakeTimers();
  FakeServer.reset();
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

describe("an edit that was sent has an unknown outcome, one that was not is rejected,", () => {
  const ended = { sessionUpdates: { __typename: "SessionEnded", reason: "done", newPath: null } };
  it.each<[string, string, () => void]>([
    ["the party is closed", "NOT_IN_A_SESSION", () => party.close()],
    ["the session is left", "NOT_IN_A_SESSION", () => void party.leave()],
    ["the session ends", "SESSION_ENDED", () => FakeServer.last.tell("sessionUpdates", ended)],
    ["the server refuses", "UNAUTHORIZED", () => FakeServer.last.end(4401)],
  ])("when %s", async (_name, code, end) => {
    const edits = [1, 2].map((number) => party.add(item(number)).catch((error) => error));
    await vi.advanceTimersByTimeAsync(10);
    // The second waits for the answer to the first.
    expect(FakeServer.asked["addQueueItem"]).toBe(1);
    end();
    await vi.advanceTimersByTimeAsync(10);
    const [sent, waiting] = await Promise.all(edits);
    expect(sent).toMatchObject({ code, outcome: "unknown" });
    expect(waiting).toMatchObject({ code, outcome: "rejected" });
    expect(party.state.pendingEdits).toBe(0);
  });
});

describe("a queue from which something is missing is asked for every thirty seconds", () => {
  beforeEach(async () => {
    FakeServer.state = { queue: [null] };
    FakeServer.last.end();
    await vi.advanceTimersByTimeAsync(3000);
    // One by which the damage was noticed, and one that is as bad.
    expect(FakeServer.asked["queueUpdates"]).toBe(3);
  });

  it("while it is quiet, until nothing is missing", async () => {
    for (const asked of [4, 5, 6]) {
      await vi.advanceTimersByTimeAsync(30_000);
      expect(FakeServer.asked["queueUpdates"]).toBe(asked);
    }
    FakeServer.state = {};
    await vi.advanceTimersByTimeAsync(30_000);
    expect(FakeServer.asked["queueUpdates"]).toBe(7);
    await vi.advanceTimersByTimeAsync(120_000);
    expect(FakeServer.asked["queueUpdates"]).toBe(7);
  });

  it("while much happens", async () => {
    const change = { __typename: "CurrentClimbChanged", incarnation: 0, currentItem: null };
    for (let second = 0, sequence = 2; second < 90; second += 1, sequence += 1) {
      FakeServer.state = { queue: [null], sequence };
      FakeServer.last.tell("queueUpdates", { queueUpdates: { ...change, sequence } });
      await vi.advanceTimersByTimeAsync(1000);
    }
    expect(party.state.sequence).toBe(91);
    expect(FakeServer.asked["queueUpdates"]).toBe(6);
  });
});

it("asks for a whole state within a second although the clock is set back by an hour", async () => {
  const later = { __typename: "CurrentClimbChanged", incarnation: 1, sequence: 1, currentItem: null };
  for (const asked of [2, 3]) {
    FakeServer.last.tell("queueUpdates", { queueUpdates: later });
    await vi.advanceTimersByTimeAsync(1000);
    expect(FakeServer.asked["queueUpdates"]).toBe(asked);
    vi.setSystemTime(Date.now() - 3_600_000);
  }
});
