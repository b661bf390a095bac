import { afterEach, expect, test } from "vitest";
import { eventually, passes } from "./harness/eventually.js";
import { Proxy } from "./harness/proxy.js";
import { Server } from "./harness/server.js";
import { Stream } from "./harness/stream.js";
import { serviceToken } from "./harness/token.js";
import { User, isGapFree } from "./harness/user.js";

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function talking(configuration: string) {
  const server = await Server.start({ configuration });
  cleanUps.push(() => server.remove());
  const proxy = await Proxy.to(() => server.port);
  cleanUps.push(() => proxy.remove());
  const ana = await User.connected("ana", server.url);
  const bo = await User.connected("bo", proxy.url);
  cleanUps.push(() => ana.close(), () => bo.close());
  return { server, proxy, ana, bo, chat_id: await ana.chatWith("bo") };
}

test("ten seconds without a network are noticed, and nothing of them is missing", async () => {
  const { proxy, ana, bo, chat_id } = await talking(`
[limits]
send_rate = 1000
send_burst = 1000
[gateway]
heartbeat_interval = "1s"
heartbeat_timeout = "3s"
`);
  const stream = new Stream(ana, chat_id);
  const answers = new Stream(bo, await bo.chatWith("cy"));
  await bo.hears(chat_id, 20);
  proxy.blackHole();
  await passes(10_000);
  expect(bo.client.state).not.toBe("connected");
  proxy.up();
  await bo.becomes("connected");
  // Cut off in the middle of everything, a few times more.
  for (let round = 0; round < 3; round += 1) {
    proxy.cut();
    await eventually("bo notices", () => bo.client.state !== "connected");
    await bo.becomes("connected");
  }
  await stream.isHeardBy(bo, ana);
  await answers.isHeardBy(bo);
});

test("what was said while the network was away comes without another word", async () => {
  const { proxy, ana, bo, chat_id } = await talking("");
  proxy.down();
  await eventually("bo notices", () => bo.client.state !== "connected");
  for (const word of ["one", "two", "three"]) await ana.client.chat(chat_id).send(word);
  proxy.up();
  await bo.hears(chat_id, 3);
  expect(bo.contents(chat_id)).toEqual(["one", "two", "three"]);
});

test("a reader that is too slow is cut off, comes back, and gets everything", async () => {
  const { server, proxy, bo, ana, chat_id } = await talking(`
[limits]
outbox_messages = 100
outbox_bytes = 65536
slow_grace = "1s"
`);
  await bo.client.chat(chat_id).send("first");
  await ana.hears(chat_id, 1);
  proxy.stall();
  let number = 0;
  const flood = async () => {
    while (number < 3000 && bo.client.state === "connected") {
      number += 1;
      const content = `${number}`.padEnd(4000, ".");
      const body = { client_message_id: `flood-${number}`, content, sender_id: "ana" };
      await fetch(`${server.url}/v1/chats/${chat_id}/messages`, {
        method: "POST",
        headers: {
          Authorization: `Bearer ${serviceToken()}`,
          "Content-Type": "application/json",
        },
        body: JSON.stringify(body),
      });
    }
  };
  await Promise.all(Array.from({ length: 16 }, flood));
  expect(server.log.some((line) => line.includes("slow_consumer"))).toBe(true);
  proxy.up();
  const messages = await bo.hears(chat_id, number + 1);
  await passes(300);
  expect(messages.length).toBe(number + 1);
  expect(isGapFree(bo.in(chat_id))).toBe(true);
});
