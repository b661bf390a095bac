/** The visible queue before the server has answered, and after it rejects an edit. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Party } from "../../src/party/party.js";
import { eventually } from "../harness/eventually.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { item, uuid } from "./climbs.js";
import { BOARD, type Message, Wire, becomes, at, pictureOf, player, uuidsOf } from "./player.js";

let server: Server;
beforeAll(async () => {
  server = await Server.start();
});
afterAll(async () => {
  await server.remove();
});

const LOCAL = { queue: [item(1), item(2), item(3)], current: item(2) };

/** Every kind of edit. */
const EDITS: [string, (party: Party) => Promise<void>][] = [
  ["add", (party) => party.add(item(4), 1)],
  ["remove", (party) => party.remove(uuid(2))],
  ["reorder", (party) => party.reorder(uuid(3), 0)],
  ["mirror", (party) => party.mirror(true)],
  ["set the current", (party) => party.setCurrent(item(1))],
  ["set and add", (party) => party.setCurrent(item(5), { shouldAddToQueue: true })],
  ["replace", (party) => party.replace(uuid(1), item(6))],
  ["set the queue", (party) => party.setQueue([item(3)])],
];

describe("an edit that is refused is taken back", () => {
  it.each(EDITS)("%s", async (_name, edit) => {
    const wire = new Wire();
    const [ana, bo] = [player(at(server), { WebSocket: wire.WebSocket }), player(at(server))];
    const { sessionId } = await ana.start(LOCAL, BOARD);
    await bo.join(sessionId as string, BOARD);
    const before = pictureOf(ana.state);
    // An argument that the server refuses.
    wire.fromClient = (message) => {
      const variables = message["payload"]?.variables;
      if (variables?.correlationId) {
        variables.correlationId = "x".repeat(101);
      }
      return message;
    };
    const refused = expect(edit(ana)).rejects.toMatchObject({
      code: "INVALID_MESSAGE", outcome: "rejected",
    });
    expect(pictureOf(ana.state)).not.toBe(before);
    // Somebody else's edit is not taken back with it.
    await bo.add(item(100));
    await refused;
    expect(ana.state.pendingEdits).toBe(0);
    const isAlike = () => pictureOf(ana.state) === pictureOf(bo.state);
    await becomes(ana, "it shows what the server has", isAlike);
    expect(uuidsOf(ana.state)).toEqual([1, 2, 3, 100].map(uuid));

    wire.fromClient = (message) => message;
    await edit(ana);
    await becomes(ana, "it is confirmed", (state) => state.pendingEdits === 0);
    await becomes(bo, "both show the same", (state) => pictureOf(state) === pictureOf(ana.state));
    expect(pictureOf(ana.state)).not.toBe(before);
    expect(ana.repairs).toEqual({ replays: 0, resyncs: 0 });
  });
});

it("an edit that is not answered in time is taken back, and its outcome is unknown", async () => {
  const proxy = await Proxy.to(() => server.port);
  const ana = player(at(proxy), { editTimeoutMs: 700 });
  await ana.start(LOCAL, BOARD);
  const before = pictureOf(ana.state);
  proxy.blackHole();
  const late = expect(ana.add(item(4), 1)).rejects.toMatchObject({
    code: "TIMEOUT", outcome: "unknown",
  });
  expect(pictureOf(ana.state)).not.toBe(before);
  await late;
  expect(pictureOf(ana.state)).toBe(before);
  proxy.up();
  await becomes(ana, "it is back", (state) => state.status === "live");
  await ana.add(item(5));
  await becomes(ana, "it is confirmed", (state) => state.pendingEdits === 0);
  // Whatever became of it, it is shown.
  const isDone = ana.state.sequence === 3;
  expect(uuidsOf(ana.state)).toEqual((isDone ? [1, 4, 2, 3, 5] : [1, 2, 3, 5]).map(uuid));
  await proxy.remove();
});

it("an edit whose answer is lost is asked for again under its name, and done once", async () => {
  const [wire, proxy] = [new Wire(), await Proxy.to(() => server.port)];
  const ana = player(at(proxy), { WebSocket: wire.WebSocket });
  const bo = player(at(server));
  const { sessionId } = await ana.start(LOCAL, BOARD);
  await bo.join(sessionId as string, BOARD);
  const names: string[] = [];
  let lost = 0;
  wire.fromClient = (message) => {
    names.push(...[message["payload"]?.variables?.correlationId ?? []].flat());
    return message;
  };
  wire.fromServer = (message: Message) => {
    if (message["payload"]?.data?.replaceQueueItem && lost++ === 0) {
      proxy.cut();
    }
    return lost === 1 ? null : message;
  };
  // Done twice it would fail: the item that it replaces is no longer there.
  const replacing = ana.replace(uuid(1), item(9));
  await eventually("the answer is lost", () => lost === 1);
  lost = 2;
  await replacing;
  expect(names.length).toBe(2);
  expect(names[0]).toBe(names[1]);
  expect(uuidsOf(ana.state)).toEqual([9, 2, 3].map(uuid));
  await becomes(bo, "it is done once", (state) => state.sequence === 2);
  await proxy.remove();
});

it("an edit whose event came is done, even if its answer never comes", async () => {
  const wire = new Wire();
  const ana = player(at(server), { WebSocket: wire.WebSocket });
  await ana.start(LOCAL, BOARD);
  const extensions = { code: "SERVICE_UNAVAILABLE", retry_after_seconds: 60 };
  const payload = { errors: [{ message: "not now", extensions }] };
  wire.fromServer = (message) =>
    message["payload"]?.data?.addQueueItem ? { ...message, payload } : message;
  await ana.add(item(4));
  wire.fromServer = (message) => (message["payload"]?.data?.addQueueItem ? null : message);
  await ana.add(item(5));
  expect(ana.state).toMatchObject({ pendingEdits: 0, sequence: 3 });
});

it("more edits than the server takes at once are done in their order, a little later", async () => {
  const ana = player(at(server));
  await ana.join("many", BOARD);
  for (let round = 0; round < 4; round += 1) {
    const numbers = Array.from({ length: 40 }, (_, index) => round * 40 + index);
    await Promise.all(numbers.map((number) => ana.add(item(number))));
  }
  await becomes(ana, "all are confirmed", (state) => state.pendingEdits === 0);
  expect(uuidsOf(ana.state)).toEqual(Array.from({ length: 160 }, (_, index) => uuid(index)));
  expect(ana.state.sequence).toBe(160);
});

it("the fifty-first edit that waits is refused", async () => {
  const proxy = await Proxy.to(() => server.port);
  const ana = player(at(proxy));
  await ana.join("crowded", BOARD);
  proxy.blackHole();
  const all = Array.from({ length: 51 }, (_, index) => ana.add(item(index)));
  await expect(all[50]).rejects.toMatchObject({ code: "TOO_MANY_PENDING" });
  expect(ana.state).toMatchObject({ pendingEdits: 50 });
  proxy.up();
  await Promise.all(all.slice(0, 50));
  await becomes(ana, "the others are done", (state) => state.sequence === 50);
  await proxy.remove();
});
