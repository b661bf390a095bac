import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { eventually } from "./harness/eventually.js";
import { Cluster } from "./harness/cluster.js";
import { Stream } from "./harness/stream.js";
import { User } from "./harness/user.js";

let cluster: Cluster;
beforeAll(async () => {
  cluster = await Cluster.start(2, {
    configuration: `
[limits]
send_rate = 1000
send_burst = 1000
[presence]
default_visibility = "everyone"
`,
  });
});
afterAll(() => cluster.remove());

const users: User[] = [];
afterEach(async () => {
  for (const user of users.splice(0)) await user.close();
});

/** Somebody who begins on the first of these nodes. */
async function user(user_id: string, ...nodes: number[]): Promise<User> {
  const urls = nodes.map((node) => cluster.nodes[node]?.url ?? "");
  const made = await User.connected(user_id, urls);
  users.push(made);
  return made;
}

test("whoever may have missed something asks, and nothing is missing", async () => {
  const ana = await user("ana", 0);
  const bo = await user("bo", 1);
  const stream = new Stream(ana, await ana.chatWith("bo"), 50);
  await bo.hears(stream.chat_id, 10);
  // Redis comes back empty: every route is gone until the nodes have made them again.
  await cluster.redis.end();
  await cluster.redis.start();
  const asked = bo.count("sync_manifest");
  await eventually("bo is told", () =>
    bo.received.some((text) => text.includes('"resync_required"')),
  );
  await eventually("bo asks", () => bo.count("sync_manifest") > asked);
  await stream.isHeardBy(bo, ana);
  expect(bo.states).toEqual(["connecting", "connected"]);
});

test("a drained node hands its clients to another one, and nobody sees them leave", async () => {
  const ana = await user("ana-2", 0);
  const bo = await user("bo-2", 1, 0);
  const seen: string[] = [];
  ana.client.presence.onChange(({ user_id, status }) => seen.push(`${user_id} ${status}`));
  ana.client.presence.subscribe(["bo-2"]);
  await eventually("bo is seen", () => seen.length > 0);
  const stream = new Stream(ana, await ana.chatWith("bo-2"), 50);
  const answers = new Stream(bo, await bo.chatWith("cy-2"), 50);
  await bo.hears(stream.chat_id, 5);
  const first = bo.client.connection?.server_id;
  expect(await cluster.nodes[1]?.end("SIGTERM")).toBe(0);
  await eventually("bo is on the other node", () => {
    const { state, connection } = bo.client;
    return state === "connected" && connection?.server_id !== first;
  });
  await stream.isHeardBy(bo, ana);
  await answers.isHeardBy(bo);
  expect(seen).not.toContain("bo-2 offline");
});
