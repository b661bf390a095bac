/** Starting, joining, leaving and ending, against a real node. */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { PartyError } from "../../src/party/error.js";
import { eventually, passes } from "../harness/eventually.js";
import { freePort } from "../harness/port.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { sign, token } from "../harness/token.js";
import { item, uuid } from "./climbs.js";
import { BOARD, TabStorage, Wire, becomes, at, player, uuidsOf } from "./player.js";

let server: Server;
beforeAll(async () => {
  server = await Server.start();
});
afterAll(async () => {
  await server.remove();
});

it("starts with the local queue, and others join it", async () => {
  const [ana, bo] = [player(at(server)), player(at(server))];
  const local = { queue: [item(1), item(2)], current: item(2) };
  const state = await ana.start(local, { ...BOARD, username: "Ana", sessionName: "Wall" });
  expect(state).toMatchObject({ status: "live", name: "Wall", isLeader: true, sequence: 1 });
  expect(uuidsOf(state)).toEqual([1, 2].map(uuid));
  expect(state.current?.uuid).toBe(uuid(2));
  const id = state.sessionId as string;
  const other = await bo.join(id, { boardPath: "/tension/1/1/1", username: "Bo" });
  expect(other).toMatchObject({ name: "Wall", isLeader: false, boardPath: BOARD.boardPath });
  expect(other.members.map((member) => member.username)).toEqual(["Ana", "Bo"]);
  await bo.add(item(3), 0);
  expect(uuidsOf(bo.state)).toEqual([3, 1, 2].map(uuid));
  await becomes(ana, "it hears of it", (state) => state.queue.length === 3);
  expect(uuidsOf(ana.state)).toEqual(uuidsOf(bo.state));
  await bo.rename("Bob");
  await becomes(ana, "it hears the name", (state) => state.members[1]?.username === "Bob");
  await ana.leave();
  expect(ana.state.status).toBe("left");
  await becomes(bo, "it leads", (state) => state.isLeader && state.members.length === 1);
  await expect(ana.add(item(4))).rejects.toMatchObject({ code: "NOT_IN_A_SESSION" });
});

it("what is seen is one object until it changes, and cannot be changed", async () => {
  const ana = player(at(server));
  let changes = 0;
  const stop = ana.subscribe(() => (changes += 1));
  await ana.join("snapshots", BOARD);
  const before = ana.state;
  expect(ana.state).toBe(before);
  const adding = ana.add(item(1));
  const shown = ana.state;
  expect([shown.queue.length, shown.pendingEdits, before.queue.length]).toEqual([1, 1, 0]);
  await adding;
  await becomes(ana, "it is confirmed", (state) => state.pendingEdits === 0);
  expect(() => (ana.state.queue as unknown[]).push(1)).toThrow(TypeError);
  expect(() => ((ana.state.queue[0] as { uuid: string }).uuid = "x")).toThrow(TypeError);
  stop();
  const seen = changes;
  await ana.add(item(2));
  expect(changes).toBe(seen);
});

it("keeps the seed until the join succeeded, over a reload too", async () => {
  const [storage, port] = [new TabStorage(), await freePort()];
  const nowhere = player(`http://127.0.0.1:${port}`, { storage });
  const started = nowhere.start({ queue: [item(1), item(2)] }, BOARD);
  const refused = expect(started).rejects.toMatchObject({ code: "NOT_IN_A_SESSION" });
  expect(uuidsOf(nowhere.state)).toEqual([1, 2].map(uuid));
  const adding = expect(nowhere.add(item(3))).rejects.toMatchObject({ outcome: "rejected" });
  expect(uuidsOf(nowhere.state)).toEqual([1, 2, 3].map(uuid));
  await passes(100);
  expect(nowhere.state.status).toBe("joining");
  nowhere.close();
  await Promise.all([refused, adding]);

  // The first answer is lost with its connection; the seed is there once all the same.
  const wire = new Wire();
  const proxy = await Proxy.to(() => server.port);
  let lost = 0;
  wire.fromServer = (message) => {
    if (message["payload"]?.data?.joinSession && lost++ === 0) {
      proxy.cut();
      return null;
    }
    return message;
  };
  const again = player(at(proxy), { storage, WebSocket: wire.WebSocket });
  expect(again.remembered?.seed?.queue.length).toBe(2);
  const state = await again.resume();
  expect(lost).toBe(2);
  expect(uuidsOf(again.state)).toEqual([1, 2].map(uuid));
  expect(state?.sequence).toBe(1);
  expect(again.remembered?.seed).toBeUndefined();
  await proxy.remove();
});

it("a reload goes on with the remembered session as the same member", async () => {
  const storage = new TabStorage();
  const ana = player(at(server), { storage });
  const bo = player(at(server));
  const before = await ana.start({ queue: [item(1)] }, { ...BOARD, username: "Ana" });
  await bo.join(before.sessionId as string, BOARD);
  const first = ana.remembered?.resumeToken;
  ana.close();
  expect(ana.state.status).toBe("idle");
  await passes(300);
  const reloaded = player(at(server), { storage });
  const after = await reloaded.resume();
  expect(after).toMatchObject({ clientId: before.clientId, isLeader: true, status: "live" });
  expect(reloaded.remembered?.resumeToken).not.toBe(first);
  expect(bo.state.members.map((member) => member.id)).toEqual([before.clientId, bo.state.clientId]);
  await reloaded.leave();
  expect(reloaded.remembered).toBeNull();
  expect(await player(at(server), { storage }).resume()).toBeNull();
});

it("a second tab with the same storage becomes the member, and the first another", async () => {
  const storage = new TabStorage();
  const first = player(at(server), { storage });
  const before = await first.join("two-tabs", BOARD);
  const second = player(at(server), { storage });
  const taken = await second.resume();
  expect(taken?.clientId).toBe(before.clientId);
  await becomes(first, "it is another member", (state) =>
    state.status === "live" && state.clientId !== before.clientId && state.members.length === 2,
  );
  await first.add(item(1));
  await becomes(second, "both go on", (state) => state.queue.length === 1);
});

it("an ended session is over for everybody, and stays over", async () => {
  const storage = new TabStorage();
  const ana = player(at(server), { storage: new TabStorage(), token: token("ana") });
  const bo = player(at(server), { storage });
  await ana.join("ended", BOARD);
  await bo.join("ended", BOARD);
  await bo.add(item(1));
  await expect(bo.end()).rejects.toMatchObject({ code: "FORBIDDEN" });
  expect(bo.state.status).toBe("live");
  await ana.end();
  expect(ana.state.status).toBe("ended");
  const state = await becomes(bo, "it is told", (state) => state.status === "ended");
  expect(state.ended?.reason).toBeTruthy();
  expect(state.members).toEqual([]);
  expect([ana.remembered, bo.remembered]).toEqual([null, null]);
  await expect(bo.add(item(2))).rejects.toMatchObject({ code: "SESSION_ENDED" });
  const late = player(at(server));
  await expect(late.join("ended", BOARD)).rejects.toMatchObject({ code: "SESSION_ENDED" });
  expect(late.state.status).toBe("ended");
});

it("who was away when the session ended is told on coming back", async () => {
  const proxy = await Proxy.to(() => server.port);
  const ana = player(at(server), { token: token("ana") });
  const bo = player(at(proxy), { storage: new TabStorage() });
  await ana.join("ended-away", BOARD);
  await bo.join("ended-away", BOARD);
  proxy.down();
  await becomes(bo, "it is away", (state) => state.status === "reconnecting");
  const adding = expect(bo.add(item(1))).rejects.toMatchObject({ code: "SESSION_ENDED" });
  await ana.end();
  proxy.up();
  await becomes(bo, "it is told", (state) => state.status === "ended");
  await adding;
  expect(bo.remembered).toBeNull();
  await proxy.remove();
});

it("what is refused for good fails, and says why", async () => {
  const bad = player(at(server), { token: "nonsense" });
  await expect(bad.join("refused", BOARD)).rejects.toMatchObject({ code: "UNAUTHORIZED" });
  expect(bad.state).toMatchObject({ status: "failed", error: { code: "UNAUTHORIZED" } });
  const wrong = player(at(server));
  const error: PartyError = await wrong.join("not an id!", BOARD).then(
    () => expect.fail("it was taken"),
    (error) => error,
  );
  expect(error.code).toBe("INVALID_MESSAGE");
  expect(error.message).toContain("Session ID");
  const local = { queue: [{ ...item(1), uuid: "no uuid" }] };
  const seeded = player(at(server));
  await expect(seeded.start(local, BOARD)).rejects.toMatchObject({ code: "INVALID_MESSAGE" });
  expect(seeded.state.queue.length).toBe(1);
  await expect(wrong.add(item(1))).rejects.toMatchObject({ code: "INVALID_MESSAGE" });
});

it("a token that was refused is asked for again, once", async () => {
  let asked = 0;
  const ana = player(at(server), { token: () => (asked++ === 0 ? "stale" : token("ana", 3)) });
  await ana.join("tokens", BOARD);
  expect(asked).toBe(2);
  await eventually("it needs another when that runs out", () => asked > 2);
  await becomes(ana, "it goes on", (state) => state.status === "live");
  await ana.add(item(1));
});

it("a second token that is refused is the last, although it is another one", async () => {
  const needs: string[] = [];
  const forged = (need: string) => {
    needs.push(need);
    return sign({ sub: "ana", exp: 4e9, jti: `${needs.length}` }, "a secret of somebody else");
  };
  const ana = player(at(server), { token: forged });
  await expect(ana.join("forged", BOARD)).rejects.toMatchObject({ code: "UNAUTHORIZED" });
  expect(ana.state.status).toBe("failed");
  expect(needs).toEqual(["connect", "refused"]);
});
