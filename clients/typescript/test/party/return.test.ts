/** Coming back: over lost networks, drained and killed nodes, and a Redis that has forgotten. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Party } from "../../src/party/party.js";
import { Cluster } from "../harness/cluster.js";
import { eventually } from "../harness/eventually.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { item, uuid } from "./climbs.js";
import { BOARD, becomes, at, pictureOf, player, summaryOf, uuidsOf } from "./player.js";

/** Everybody in whose sight somebody never was away. */
function watch(party: Party, clientId: string): () => boolean {
  let isMissed = false;
  party.subscribe(() => {
    const { members, leaderId } = party.state;
    isMissed ||= members.length > 0 && !members.some((member) => member.id === clientId);
    isMissed ||= leaderId !== null && leaderId !== clientId;
  });
  return () => isMissed;
}

describe("on two nodes", () => {
  let cluster: Cluster | undefined;
  const node = (number: number) => cluster?.nodes[number] as Server;
  const urls = (...numbers: number[]) => numbers.map((number) => at(node(number)));

  beforeAll(async () => {
    cluster = await Cluster.start(2);
  }, 120_000);
  afterAll(async () => {
    await cluster?.remove();
  });

  it("a drained node's member goes on elsewhere as the same one, and leads as before", async () => {
    const [ana, bo] = [player(urls(1, 0)), player(urls(0))];
    const before = await ana.start({ queue: [item(1)] }, { ...BOARD, username: "Ana" });
    await bo.join(before.sessionId as string, BOARD);
    const isMissed = watch(bo, before.clientId as string);
    const ended = node(1).end("SIGTERM");
    await becomes(ana, "it is sent away", (state) => state.status === "reconnecting");
    const adding = ana.add(item(2));
    await becomes(ana, "it is back", (state) => state.status === "live");
    await adding;
    expect(ana.state).toMatchObject({ clientId: before.clientId, isLeader: true });
    await bo.add(item(3));
    await becomes(ana, "it hears the others", (state) => state.queue.length === 3);
    await becomes(bo, "both show the same", (state) => pictureOf(state) === pictureOf(ana.state));
    expect(bo.state.members.map((member) => member.username)[0]).toBe("Ana");
    expect(isMissed()).toBe(false);
    expect(await ended).toBe(0);
    await node(1).start();
  });

  it("a killed node's member does, too, and nothing that was answered is lost", async () => {
    const [ana, bo] = [player(urls(1, 0)), player(urls(0))];
    const before = await ana.join("killed", BOARD);
    await bo.join("killed", BOARD);
    const isMissed = watch(bo, before.clientId as string);
    const edits = Array.from({ length: 30 }, (_, number) => ana.add(item(number)));
    await edits[9];
    await node(1).end("SIGKILL");
    await Promise.all(edits);
    expect(ana.state).toMatchObject({ clientId: before.clientId, isLeader: true });
    await becomes(bo, "everything is there once", (state) => state.queue.length === 30);
    expect(uuidsOf(bo.state)).toEqual(Array.from({ length: 30 }, (_, number) => uuid(number)));
    expect(isMissed()).toBe(false);
    await node(1).start();
  });

  it("parties that edit at random over networks that fail come to show the same", async () => {
    const proxies = await Promise.all([0, 1].map((number) => Proxy.to(() => node(number).port)));
    const parties = [0, 1, 0].map((number) => player(at(proxies[number] as Proxy)));
    for (const party of parties) {
      await party.join("random", BOARD);
    }
    let cuts = 0;
    const edit = async (party: Party, number: number) => {
      const { queue } = party.state;
      const pick = queue[Math.floor(Math.random() * queue.length)];
      const kind = pick === undefined ? 0 : Math.floor(Math.random() * 8);
      const place = Math.floor(Math.random() * Math.max(1, queue.length));
      if (kind <= 2 || pick === undefined) return await party.add(item(number), place);
      if (kind === 3) return await party.remove(pick.uuid);
      if (kind === 4) return await party.reorder(pick.uuid, place);
      if (kind === 5) return await party.setCurrent(pick);
      if (kind === 6) return await party.mirror(Math.random() < 0.5);
      return await party.replace(pick.uuid, item(number + 500));
    };
    const refusals: string[] = [];
    const play = async (party: Party, first: number) => {
      for (let number = 0; number < 16; number += 1) {
        const refused = (error: { code: string }) => void refusals.push(error.code);
        const edits = [0, 100].map((more) => edit(party, first + more + number).catch(refused));
        await Promise.all(edits);
        if (number % 8 === 4) {
          proxies[cuts++ % 2]?.cut();
        }
      }
    };
    await Promise.all(parties.map((party, index) => play(party, (index + 1) * 1000)));
    const fresh = player(urls(1));
    await fresh.join("random", BOARD);
    for (const party of parties) {
      const summaries = JSON.stringify(parties.map(({ state }) => summaryOf(state)));
      await eventually(`they agree: ${summaries}`, () => {
        const { pendingEdits, sequence } = party.state;
        return pendingEdits === 0 && sequence === fresh.state.sequence;
      });
      expect(pictureOf(party.state)).toBe(pictureOf(fresh.state));
      expect(party.repairs.resyncs).toBe(0);
    }
    // An item that another member has removed or replaced cannot be moved or replaced.
    expect(refusals.filter((code) => !["NOT_FOUND", "INVALID_MESSAGE"].includes(code))).toEqual([]);
    await Promise.all(proxies.map((proxy) => proxy.remove()));
  });

  it("what Redis has forgotten comes back as a new incarnation that everybody shows", async () => {
    const [ana, bo] = [player(urls(1)), player(urls(0))];
    await ana.start({ queue: [item(1), item(2)] }, BOARD);
    await bo.join(ana.state.sessionId as string, BOARD);
    await ana.add(item(3));
    await becomes(bo, "both show it", (state) => state.queue.length === 3);
    const before = ana.state.incarnation as number;
    await cluster?.redis.end();
    await cluster?.redis.start();
    for (const party of [ana, bo]) {
      await becomes(party, "it is restored", (state) => (state.incarnation ?? 0) > before);
      expect(uuidsOf(party.state)).toEqual([1, 2, 3].map(uuid));
    }
    await ana.add(item(4));
    await becomes(bo, "it goes on", (state) => uuidsOf(state).includes(uuid(4)));
  });
});

it("a node that is killed and started again has everything that was answered", async () => {
  const server = await Server.start();
  const ana = player(at(server));
  await ana.join("alone", BOARD);
  const edits = Array.from({ length: 20 }, (_, number) => ana.add(item(number)));
  await edits[4];
  await server.end("SIGKILL");
  await becomes(ana, "it notices", (state) => state.status === "reconnecting");
  expect(ana.state.queue.length).toBe(20);
  await server.start();
  await Promise.all(edits);
  expect(uuidsOf(ana.state)).toEqual(Array.from({ length: 20 }, (_, number) => uuid(number)));
  const fresh = player(at(server));
  await fresh.join("alone", BOARD);
  await becomes(ana, "it is confirmed", (state) => state.pendingEdits === 0);
  expect(pictureOf(fresh.state)).toBe(pictureOf(ana.state));
  await server.remove();
});

it("a network that is back is used at once", async () => {
  const server = await Server.start();
  const proxy = await Proxy.to(() => server.port);
  const window = new EventTarget();
  const ana = player(at(proxy), { window });
  await ana.join("online", BOARD);
  proxy.down();
  const { accepted } = proxy;
  await eventually("two attempts fail", () => proxy.accepted >= accepted + 2);
  proxy.up();
  // The next attempt is seconds away.
  const begun = Date.now();
  window.dispatchEvent(new Event("online"));
  await becomes(ana, "it is back", (state) => state.status === "live");
  expect(Date.now() - begun).toBeLessThan(1500);
  await Promise.all([proxy.remove(), server.remove()]);
});

it("a network that says nothing any more is given up", async () => {
  const server = await Server.start();
  const proxy = await Proxy.to(() => server.port);
  const ana = player(at(proxy), { silenceMs: 200 });
  const { clientId } = await ana.join("silence", BOARD);
  proxy.blackHole();
  await becomes(ana, "it notices", (state) => state.status === "reconnecting");
  proxy.up();
  await becomes(ana, "it is back", (state) => state.status === "live");
  expect(ana.state.clientId).toBe(clientId);
  await ana.add(item(1));
  await Promise.all([proxy.remove(), server.remove()]);
});
