/** A copy that is wrong, or behind, becomes right. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Party } from "../../src/party/party.js";
import { eventually, passes } from "../harness/eventually.js";
import { Server } from "../harness/server.js";
import { item, uuid } from "./climbs.js";
import {
  BOARD, type Message, Wire, becomes, at, pictureOf, player, queueEventIn, uuidsOf,
} from "./player.js";

let server: Server;
beforeAll(async () => {
  server = await Server.start();
});
afterAll(async () => {
  await server.remove();
});

/** A client on a tampered wire, and one on a good one. */
async function pair(wire: Wire, options = {}): Promise<[Party, Party]> {
  const bo = player(at(server));
  const { sessionId } = await bo.start({ queue: [item(1), item(2)], current: item(1) }, BOARD);
  const ana = player(at(server), { WebSocket: wire.WebSocket, ...options });
  await ana.join(sessionId as string, BOARD);
  return [ana, bo];
}

async function agree(one: Party, other: Party): Promise<void> {
  await becomes(one, "both show the same", (state) =>
    state.sequence === other.state.sequence && pictureOf(state) === pictureOf(other.state),
  );
}

/** Changes the queue events that satisfy something. */
const changing = (change: (event: Message) => Message | null) => (message: Message) => {
  const event = queueEventIn(message);
  if (event === null) {
    return message;
  }
  const changed = change(event);
  return changed && { ...message, payload: { data: { queueUpdates: changed } } };
};

describe("drift is noticed and healed with the next event", () => {
  /** Changes the first whole state, and takes its hashes away so that nobody notices. */
  const plant = (change: (state: Message) => void) => {
    let isPlanted = false;
    return changing((event) => {
      if (event["__typename"] === "FullSync" && !isPlanted) {
        isPlanted = true;
        change(event["state"]);
        event["state"].stateHash = event["state"].orderHash = null;
      }
      return event;
    });
  };

  it.each<[string, (state: Message) => void]>([
    ["a missing item", (state) => state["queue"].pop()],
    ["another order", (state) => state["queue"].reverse()],
    ["another name", (state) => (state["queue"][1].climb.name = "other")],
    ["another mirroring", (state) => (state["currentClimbQueueItem"].climb.mirrored = true)],
    ["no current climb", (state) => (state["currentClimbQueueItem"] = null)],
  ])("%s", async (_name, change) => {
    const wire = new Wire();
    wire.fromServer = plant(change);
    const [ana, bo] = await pair(wire);
    expect(pictureOf(ana.state)).not.toBe(pictureOf(bo.state));
    expect(ana.repairs).toEqual({ replays: 0, resyncs: 0 });
    await bo.add(item(3));
    await agree(ana, bo);
    expect(ana.repairs).toEqual({ replays: 0, resyncs: 1 });
    await bo.add(item(4));
    await agree(ana, bo);
    expect(ana.repairs.resyncs).toBe(1);
  });

  it("without another event once it is quiet", async () => {
    const wire = new Wire();
    wire.fromServer = plant((state) => state["queue"].pop());
    const [ana, bo] = await pair(wire, { verifyAfterMs: 300 });
    expect(uuidsOf(ana.state)).toEqual([uuid(1)]);
    await agree(ana, bo);
    await passes(1000);
    expect(ana.repairs).toEqual({ replays: 0, resyncs: 1 });
  });
});

describe("events that are missing", () => {
  it.each([
    [100, { replays: 1, resyncs: 0 }],
    [101, { replays: 0, resyncs: 1 }],
  ])("a gap of %i: %j", async (gap, repairs) => {
    const wire = new Wire();
    const [ana, bo] = await pair(wire);
    const last = 1 + gap;
    wire.fromServer = changing((event) => (event["sequence"] < last ? null : event));
    for (let number = 0; number < gap; number += 1) {
      await (number % 2 ? bo.remove(uuid(99 + number)) : bo.add(item(100 + number)));
    }
    await becomes(bo, "everything is done", (state) => state.sequence === last);
    await agree(ana, bo);
    expect(ana.repairs).toEqual(repairs);
  });

  it("are waited for by those that came after them", async () => {
    const wire = new Wire();
    const [ana, bo] = await pair(wire);
    let isLost = false;
    const seen: (number | null)[] = [];
    let isSkipped = false;
    const deliver = changing((event) => (event["sequence"] === 3 ? null : event));
    wire.fromServer = (message) => {
      if (message["payload"]?.data?.eventsReplay && !isLost) {
        isLost = true;
        return null;
      }
      return deliver(message);
    };
    ana.subscribe(() => {
      const { sequence } = ana.state;
      if (seen.at(-1) !== sequence) seen.push(sequence);
      isSkipped ||= Number(sequence) >= 3 && !uuidsOf(ana.state).includes(uuid(4));
    });
    for (const number of [3, 4, 5, 6]) {
      await bo.add(item(number));
    }
    // The answer that was lost is taken for a failure, and everything is fetched.
    await agree(ana, bo);
    expect(seen.filter((sequence) => sequence !== null).sort()).toEqual(seen);
    expect(isSkipped).toBe(false);
    expect(ana.repairs).toEqual({ replays: 1, resyncs: 1 });
  });

  it("are found without another event once it is quiet", async () => {
    const wire = new Wire();
    const [ana, bo] = await pair(wire, { verifyAfterMs: 500 });
    wire.fromServer = changing((event) => (event["sequence"] === 2 ? null : event));
    await bo.setCurrent(item(2));
    await agree(ana, bo);
    expect(ana.state.current?.uuid).toBe(uuid(2));
    expect(ana.repairs).toEqual({ replays: 1, resyncs: 0 });
  });
});

it("items that are missing from a whole state are left out, and asked for once", async () => {
  const wire = new Wire();
  wire.fromServer = changing((event) => {
    event["state"]?.queue.splice(1, 0, null, { climb: {} });
    return event;
  });
  const [ana, bo] = await pair(wire);
  await eventually("it asks again", () => ana.repairs.resyncs === 1);
  await passes(500);
  expect(ana.repairs.resyncs).toBe(1);
  expect(uuidsOf(ana.state)).toEqual([1, 2].map(uuid));
  await bo.add(item(3));
  await becomes(ana, "it goes on", (state) => uuidsOf(state).includes(uuid(3)));
});

it.each(["queue", "session"])("a %s stream that ends is begun again", async (kind) => {
  const wire = new Wire();
  const [ana, bo] = await pair(wire);
  const { clientId } = ana.state;
  let ended = 0;
  wire.fromServer = (message) => {
    const isMeant = message["payload"]?.data?.[`${kind}Updates`] !== undefined;
    return isMeant && ended++ === 0 ? { type: "complete", id: message["id"] } : message;
  };
  await bo.add(item(3));
  await bo.rename("Bob");
  await becomes(ana, "it hears the name", (state) => state.members[0]?.username === "Bob");
  await agree(ana, bo);
  await eventually("the stream is back", () => ended > 1);
  await ana.add(item(4));
  await agree(bo, ana);
  expect(ana.state).toMatchObject({ clientId, status: "live" });
  expect(bo.state.members.length).toBe(2);
});
