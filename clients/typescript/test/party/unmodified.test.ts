/**
 * The proof of compatibility: the `graphql-ws` client that npm has, unmodified and with its own
 * retries, against real nodes.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cluster } from "../harness/cluster.js";
import { eventually, passes } from "../harness/eventually.js";
import { Proxy } from "../harness/proxy.js";
import { Server } from "../harness/server.js";
import { token } from "../harness/token.js";
import { bulky, item, uuid } from "./climbs.js";
import { type Data, Guest } from "./unmodified_guest.js";

const graphql = (at: { address: string }) => `ws://${at.address}/graphql`;
const uuidsOf = (queue: Data[]) => queue.map((item) => item.uuid);

const guests: Guest[] = [];
function guest(...given: ConstructorParameters<typeof Guest>): Guest {
  const guest = new Guest(...given);
  guests.push(guest);
  return guest;
}

afterAll(async () => {
  await Promise.all(guests.map((guest) => guest.dispose()));
});

/** Deltas have no holes, and a whole state is never older than what came before it. */
function expectNoHoles(events: Data[]): void {
  let last: number | undefined;
  for (const event of events) {
    if (event.__typename === "FullSync") {
      expect(event.sequence).toBeGreaterThanOrEqual(last ?? 0);
    } else {
      expect(event.sequence).toBe((last as number) + 1);
    }
    last = event.sequence;
  }
}

describe("on two nodes", () => {
  let cluster: Cluster | undefined;
  const node = (number: number) => cluster?.nodes[number] as Server;

  beforeAll(async () => {
    cluster = await Cluster.start(2);
  }, 120_000);
  afterAll(async () => {
    await cluster?.remove();
  });

  it("two clients see the same events in the same order", async () => {
    const [ana, bo] = [guest(graphql(node(0))), guest(graphql(node(1)))];
    const seed = { initialQueue: [item(1), item(2)], initialCurrentClimb: item(2) };
    const joined = await ana.join("same-order", { ...seed, username: "Ana", sessionName: "Wall" });
    expect(joined).toMatchObject({ id: "same-order", name: "Wall", isLeader: true });
    expect(joined.queueState).toMatchObject({ sequence: 1 });
    const other = await bo.join("same-order", { initialQueue: [item(9)], username: "Bo" });
    expect(other).toMatchObject({ name: "Wall", isLeader: false });
    expect(other.users.map((user: Data) => user.username)).toEqual(["Ana", "Bo"]);
    expect(uuidsOf(other.queueState.queue)).toEqual([uuid(1), uuid(2)]);
    ana.listen("same-order");
    bo.listen("same-order");
    await Promise.all([ana.reaches(1), bo.reaches(1)]);

    const edits = (guest: Guest, first: number) =>
      Array.from({ length: 10 }, (_, index) => guest.add(item(first + index), index % 3));
    await Promise.all([...edits(ana, 100), ...edits(bo, 200)]);
    expect(await ana.remove(100)).toBe(true);
    expect(await bo.reorder(1, 0, 5)).toBe(true);
    expect(await ana.setCurrent(item(300), { shouldAddToQueue: true, correlationId: "mine" }))
      .toMatchObject({ uuid: uuid(300) });
    expect(await bo.mirror(true)).toMatchObject({ climb: { mirrored: true } });
    const set = await ana.setQueue([item(1), item(2)]);
    await bo.add(item(3));

    const last = 1 + 20 + 2 + 2 + 1 + 1 + 1;
    expect(set.sequence).toBe(last - 1);
    await Promise.all([ana.reaches(last), bo.reaches(last)]);
    expect(ana.queueEvents).toEqual(bo.queueEvents);
    expect(ana.queueEvents[0]).toMatchObject({ __typename: "FullSync", sequence: 1 });
    expect(ana.queueEvents.map((event) => event.sequence)).toEqual(
      Array.from({ length: last }, (_, index) => index + 1),
    );
    expect(ana.queueEvents.slice(-5).map((event) => event.__typename)).toEqual([
      "QueueItemAdded", "CurrentClimbChanged", "ClimbMirrored", "FullSync", "QueueItemAdded",
    ]);
    expect(ana.queueEvents.at(-4)).toMatchObject({
      clientId: joined.clientId, correlationId: "mine", currentItem: { uuid: uuid(300) },
    });
    await bo.run("mutation Leave { leaveSession }");
    await eventually("who stays is told who leaves", () =>
      ana.sessionEvents.some((event) => event.userId === other.clientId),
    );
    await eventually("who left hears no more", () => bo.ends.length === 2);
    expect(bo.ends).toEqual(["complete", "complete"]);
  });

  it.each([{ lazy: false }, { lazy: true }])(
    "one that is cut comes back on the other node and subscribes before it joins ($lazy)",
    async ({ lazy }) => {
      const session = `cut-${lazy}`;
      const proxies = await Promise.all([0, 1].map((number) => Proxy.to(() => node(number).port)));
      const urls = proxies.map(graphql);
      let attempts = 0;
      const ana = guest(() => urls[attempts++ % 2] as string, { lazy });
      const bo = guest(graphql(node(0)));
      await bo.join(session);
      ana.listen(session);
      // An application joins once it is told that it is connected; the library has subscribed.
      const joins = async (connection: number) => {
        await eventually("it is connected", () => ana.connections >= connection);
        await passes(150);
        return await ana.join(session);
      };
      await joins(1);
      await bo.add(item(1));
      await ana.reaches(1);
      const said = ana.sent.length;
      proxies[0]?.cut();
      for (const number of [2, 3, 4]) {
        await bo.add(item(number));
      }
      const joined = await joins(2);
      expect(proxies.map((proxy) => proxy.accepted)).toEqual([1, 1]);
      expect(ana.closes.map((close) => close.code)).toEqual([1006]);
      const sent = ["connection_init", "QueueUpdates", "SessionUpdates", "Join"];
      expect(ana.sent.slice(said)).toEqual(sent);
      expect(joined.queueState.sequence).toBe(4);
      await bo.add(item(5));
      await ana.reaches(5);
      expectNoHoles(ana.queueEvents);
      const synced = ana.queueEvents.filter((event) => event.__typename === "FullSync").at(-1);
      expect(uuidsOf(synced?.state.queue)).toEqual([1, 2, 3, 4].map(uuid));
      expect(ana.ends).toEqual([]);
      await Promise.all(proxies.map((proxy) => proxy.remove()));
    },
  );

  it("a drained node sends it to the other one, where it goes on", async () => {
    let attempts = 0;
    const ana = guest(() => graphql(node(attempts++ === 0 ? 1 : 0)));
    const bo = guest(graphql(node(0)));
    await bo.join("drained");
    bo.listen("drained");
    const before = await ana.join("drained");
    ana.listen("drained");
    await ana.add(item(1));
    await ana.reaches(1);
    const ended = node(1).end("SIGTERM");
    expect(await ana.closedAfter(0)).toBe(1012);
    await eventually("it is connected", () => ana.connections === 2);
    const after = await ana.join("drained");
    expect(uuidsOf(after.queueState.queue)).toEqual([uuid(1)]);
    await ana.add(item(2));
    await Promise.all([ana.reaches(2), bo.reaches(2)]);
    expectNoHoles(ana.queueEvents);
    await eventually("the others are told that it left", () =>
      bo.sessionEvents.some((event) => event.userId === before.clientId),
    );
    expect(await ended).toBe(0);
    await node(1).start();
  });
});

describe("on one node", () => {
  let server: Server;

  beforeAll(async () => {
    server = await Server.start();
  });
  afterAll(async () => {
    await server.remove();
  });

  it.concurrent("one whose socket takes nothing is cut with 1013 and retries", async () => {
    const proxy = await Proxy.to(() => server.port);
    // It says something until the end, so that it is not taken for dead before it is for slow.
    const ana = guest(graphql(proxy), { retryWait: () => passes(0), keepAlive: 1_000 });
    const bo = guest(graphql(server));
    await Promise.all([ana.join("slow"), bo.join("slow")]);
    ana.listen("slow");
    const idle = Array.from({ length: 7 }, () => ana.listenIdly("slow"));
    await ana.reaches(0);
    proxy.stall();
    // The kernel takes some megabytes before the server notices.
    await bo.setQueue(Array.from({ length: 100 }, (_, index) => bulky(index, 30_000)));
    await bo.add(item(1000));
    let askedAt = 0;
    await eventually("the server gives it up", async () => {
      askedAt = Date.now();
      return (await server.metric("gateway_slow_consumer_disconnects_total")) === 1;
    }, 50_000);
    for (const stop of idle) {
      stop();
    }
    proxy.up();
    // Its last words wait two seconds for somebody who reads again.
    const isInTime = Date.now() - askedAt < 1500;
    expect([1013, ...(isInTime ? [] : [1006])]).toContain(await ana.closedAfter(0));
    await eventually("it is connected", () => ana.connections === 2);
    await ana.join("slow");
    const synced = await eventually("it is told everything", () =>
      ana.queueEvents.find((event) => event.state?.queue.length === 101),
    );
    expect(synced.sequence).toBe(2);
    expectNoHoles(ana.queueEvents);
    await proxy.remove();
  }, 100_000);

  it.concurrent("a restart is retried, and every edit that was answered is there", async () => {
    const own = await Server.start();
    const ana = guest(graphql(own));
    await ana.join("restart");
    ana.listen("restart");
    for (const number of [1, 2, 3]) {
      await ana.add(item(number));
    }
    await ana.reaches(3);
    await own.end("SIGKILL");
    await own.start();
    await eventually("it is connected", () => ana.connections === 2);
    const joined = await ana.join("restart");
    expect(uuidsOf(joined.queueState.queue)).toEqual([1, 2, 3].map(uuid));
    const { sequence } = joined.queueState;
    await ana.add(item(4));
    const heard = await ana.reaches(sequence + 1);
    expect(heard).toMatchObject({ addedItem: { uuid: uuid(4) } });
    expect(ana.closes.every((close) => close.code === 1006)).toBe(true);
    expect(ana.ends).toEqual([]);
    await own.remove();
  });

  it.concurrent("who waits too long with its parameters is cut with 4408 and retries", async () => {
    let asked = 0;
    const connectionParams = async () => {
      asked += 1;
      await passes(asked === 1 ? 5_000 : 0);
      return {};
    };
    const ana = guest(graphql(server), { connectionParams });
    ana.listen("late");
    expect(await ana.closedAfter(0)).toBe(4408);
    await eventually("it is connected", () => ana.connections === 1);
    await ana.join("late");
    await ana.reaches(0);
  });

  it.concurrent("one whose token runs out comes back with a new one", async () => {
    let asked = 0;
    const connectionParams = () => ({ authToken: token("ana", asked++ === 0 ? 5 : 60) });
    const ana = guest(graphql(server), { connectionParams });
    await ana.join("token");
    ana.listen("token");
    await ana.reaches(0);
    expect(await ana.closedAfter(0)).toBe(4403);
    await eventually("it is connected", () => ana.connections === 2);
    await ana.join("token");
    await ana.add(item(1));
    await ana.reaches(1);
    expect(ana.ends).toEqual([]);
  });

  it.concurrent.each([
    [4401, "a bad token", { connectionParams: { authToken: "nonsense" } }],
    [4400, "what is no message", { jsonMessageReplacer: () => 42 }],
    [4409, "two operations of one name", { generateID: () => "same" }],
  ])("%i for %s is final", async (code, _why, options) => {
    const proxy = await Proxy.to(() => server.port);
    const ana = guest(graphql(proxy), options);
    ana.listen("fatal");
    expect(await ana.closedAfter(0)).toBe(code);
    await eventually("its operations fail", () => ana.ends.length === 2);
    expect(ana.ends).toMatchObject([{ code }, { code }]);
    await passes(500);
    expect(proxy.accepted).toBe(1);
    await proxy.remove();
  });

  it.concurrent("what is wrong with a document is an answer, and the socket stays", async () => {
    const ana = guest(graphql(server));
    const wrong = [{ extensions: { code: "INVALID_MESSAGE" } }];
    await expect(ana.run("{ nope")).rejects.toMatchObject(wrong);
    const refused = await ana.result("mutation Leave { removeQueueItem(uuid: \"a\") }");
    expect(refused.errors[0]).toMatchObject({
      message: "Must be in a session to perform this operation",
      extensions: { code: "NOT_A_MEMBER" },
    });
    await ana.join("still-here");
    expect(ana.closes).toEqual([]);
  });
});
