import { afterEach, expect, test } from "vitest";
import { eventually, passes } from "./harness/eventually.js";
import { Server } from "./harness/server.js";
import { Stream } from "./harness/stream.js";
import { User } from "./harness/user.js";

const CONFIGURATION = `
[limits]
send_rate = 1000
send_burst = 1000
[gateway]
heartbeat_interval = "1s"
heartbeat_timeout = "3s"
`;

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function talking(): Promise<{ server: Server; ana: User; bo: User; stream: Stream }> {
  const server = await Server.start({ configuration: CONFIGURATION });
  cleanUps.push(() => server.remove());
  const ana = await User.connected("ana", server.url);
  const bo = await User.connected("bo", server.url);
  cleanUps.push(() => ana.close(), () => bo.close());
  const stream = new Stream(ana, await ana.chatWith("bo"));
  await bo.hears(stream.chat_id, 20);
  return { server, ana, bo, stream };
}

test("a killed server loses, repeats and reorders nothing", async () => {
  const { server, ana, bo, stream } = await talking();
  bo.client.presence.subscribe(["ana", "cy"]);
  for (let round = 0; round < 3; round += 1) {
    await ana.inMidSend(() => server.end("SIGKILL"));
    await passes(200);
    await server.start();
    await Promise.all([ana.becomes("connected"), bo.becomes("connected")]);
    const before = bo.in(stream.chat_id).length;
    await bo.hears(stream.chat_id, before + 20);
  }
  await stream.isHeardBy(bo, ana);
  expect(bo.states).toContain("reconnecting");
  const watched = bo.sent.filter((frame) => frame.type === "presence_subscribe");
  expect(watched.length).toBeGreaterThanOrEqual(4);
  expect(watched.every(({ user_ids }) => user_ids.join() === "ana,cy")).toBe(true);
});

test("a drained server is left in order, and come back to when it asked", async () => {
  const { server, ana, bo, stream } = await talking();
  const code = await server.end("SIGTERM");
  expect(code).toBe(0);
  const closing = bo.received.find((text) => text.includes("connection_closing"));
  expect(JSON.parse(closing ?? "{}")).toMatchObject({ reason: "server_shutdown" });
  const { reconnect_delay_ms } = JSON.parse(closing ?? "{}") as { reconnect_delay_ms: number };
  expect(reconnect_delay_ms).toBeLessThanOrEqual(8000);
  await server.start();
  await Promise.all([ana.becomes("connected"), bo.becomes("connected")]);
  await stream.isHeardBy(bo, ana);
});

test("a server that stands still for a while is left, and nothing is missing after", async () => {
  const { server, ana, bo, stream } = await talking();
  await server.freeze();
  await eventually("bo gives up", () => bo.client.state === "reconnecting");
  await passes(500);
  server.thaw();
  await Promise.all([ana.becomes("connected"), bo.becomes("connected")]);
  await stream.isHeardBy(bo, ana);
});

test("several servers are tried in turn", async () => {
  const server = await Server.start({ configuration: CONFIGURATION });
  cleanUps.push(() => server.remove());
  const dead = "http://127.0.0.1:9";
  const user = new User("cy", [dead, server.url]);
  cleanUps.push(() => user.close());
  await user.client.connect();
  expect(user.states).toEqual(["connecting", "connected"]);
});
