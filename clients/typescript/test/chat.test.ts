import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { HeartlineError, type Presence, RefusedError } from "../src/index.js";
import { eventually } from "./harness/eventually.js";
import { Server } from "./harness/server.js";
import { serviceToken } from "./harness/token.js";
import { User, isGapFree } from "./harness/user.js";

let server: Server;

beforeAll(async () => {
  server = await Server.start({ configuration: '[presence]\ndefault_visibility = "everyone"' });
});
afterAll(() => server.remove());

/** Two people and their chat; closed at the end of the test. */
async function pair(): Promise<{ ana: User; bo: User; chat_id: string }> {
  const suffix = Math.random().toString(36).slice(2, 8);
  const ana = await User.connected(`ana-${suffix}`, server.url);
  const bo = await User.connected(`bo-${suffix}`, server.url);
  return { ana, bo, chat_id: await ana.chatWith(bo.user_id) };
}

describe("a chat", () => {
  test("brings a message to the other and answers its sender when it is stored", async () => {
    const { ana, bo, chat_id } = await pair();
    const receipt = await ana.client.chat(chat_id).send("hello", { content_type: "text/markdown" });
    expect(receipt).toMatchObject({ chat_id, sequence: 1, duplicate: false });
    const [message] = await bo.hears(chat_id, 1);
    expect(message).toMatchObject({ content: "hello", content_type: "text/markdown", sequence: 1 });
    const [own] = await ana.hears(chat_id, 1);
    expect(own).toMatchObject({ message_id: receipt.message_id, sender_id: ana.user_id });
    await Promise.all([ana.close(), bo.close()]);
  });

  test("keeps the order of its messages on both sides", async () => {
    const { ana, bo, chat_id } = await pair();
    const words = Array.from({ length: 15 }, (_, number) => `word ${number}`);
    const answers = [
      ...words.map((word) => ana.client.chat(chat_id).send(word)),
      bo.client.chat(chat_id).send("in between"),
    ];
    await Promise.all(answers);
    for (const user of [ana, bo]) {
      const messages = await user.hears(chat_id, 16);
      expect(isGapFree(messages)).toBe(true);
      const ofAna = messages.filter((message) => message.sender_id === ana.user_id);
      expect(ofAna.map((message) => message.content)).toEqual(words);
    }
    await Promise.all([ana.close(), bo.close()]);
  });

  test("is acknowledged for the user, and comes only once on the next device", async () => {
    const { ana, bo, chat_id } = await pair();
    for (let number = 0; number < 12; number += 1) await ana.client.chat(chat_id).send(`${number}`);
    await bo.hears(chat_id, 12);
    await eventually("an ack of ten", () => bo.count("ack") > 0);
    expect(bo.count("ack")).toBeLessThan(6);
    await bo.close();
    await eventually("the server has heard the last one", async () => {
      const { items } = await ana.client.rest.listDelivery(chat_id);
      const isBo = (item: { user_id: string }) => item.user_id === bo.user_id;
      return items.find(isBo)?.last_acked_sequence === 12;
    });
    const again = new User(bo.user_id, server.url, { backlog: { unread_max: 500 } });
    again.listen();
    await again.client.connect();
    await eventually("synced", () => again.synced === 1);
    expect(again.contents(chat_id)).toEqual([]);
    const page = await again.client.chat(chat_id).history({ limit: 3 });
    expect(page.items.map((message) => message.sequence)).toEqual([10, 11, 12]);
    const before = await again.client.chat(chat_id).history({ before_sequence: 3 });
    expect(before.items.map((message) => message.sequence)).toEqual([1, 2]);
    await Promise.all([ana.close(), again.close()]);
  });

  test("waits for its listener, and for the one who takes a message slowly", async () => {
    const { ana, bo, chat_id } = await pair();
    const late = new User(bo.user_id, server.url);
    await late.client.connect();
    for (const word of ["one", "two", "three"]) await ana.client.chat(chat_id).send(word);
    await eventually("nothing is asked for", () => late.count("sync_manifest") > 0);
    expect(late.messages).toEqual([]);
    let running = 0;
    const order: string[] = [];
    late.client.chat(chat_id).onMessage(async (message, own) => {
      expect([++running, own]).toEqual([1, false]);
      await new Promise((resolve) => setTimeout(resolve, 20));
      order.push(message.content);
      running -= 1;
    });
    await eventually("all come", () => order.length === 3);
    expect(order).toEqual(["one", "two", "three"]);
    await Promise.all([ana.close(), bo.close(), late.close()]);
  });
});

test("who is removed and comes back gets nothing twice, and what was said meanwhile", async () => {
  const { ana, bo } = await pair();
  const { chat_id } = await ana.client.rest.createChat({
    type: "group",
    name: "to and fro",
    member_ids: [bo.user_id],
  });
  for (const word of ["one", "two", "three"]) await ana.client.chat(chat_id).send(word);
  await bo.hears(chat_id, 3);
  const told = (change: string) =>
    bo.received.some((text) => text.includes(`"${change}"`) && text.includes(chat_id));
  await ana.client.rest.removeMember(chat_id, bo.user_id);
  await eventually("bo is told", () => told("member_removed"));
  await ana.client.chat(chat_id).send("four");
  await ana.client.rest.addMember(chat_id, bo.user_id);
  await ana.client.chat(chat_id).send("five");
  await eventually("bo hears the last", () => bo.in(chat_id).some(({ content }) => content === "five"));
  const words = bo.in(chat_id).map(({ content }) => content);
  expect(words).toEqual(["one", "two", "three", "four", "five"]);
  await Promise.all([ana.close(), bo.close()]);
});

test("what waited for a listener that is gone comes to the next one, once", async () => {
  const { ana, bo, chat_id } = await pair();
  const reader = new User(bo.user_id, server.url);
  await reader.client.connect();
  const chat = reader.client.chat(chat_id);
  const heard: string[] = [];
  let finish = () => {};
  const remove = chat.onMessage(async ({ content }) => {
    heard.push(content);
    await new Promise<void>((resolve) => (finish = resolve));
  });
  const words = ["one", "two", "three", "four", "five"];
  for (const word of words.slice(0, 3)) await ana.client.chat(chat_id).send(word);
  await eventually("the first is taken", () => heard.length === 1);
  const isThere = (text: string) => text.includes('"message"') && text.includes('"three"');
  await eventually("the others wait", () => reader.received.some(isThere));
  remove();
  finish();
  await ana.client.chat(chat_id).send("four");
  await eventually("another comes", () => reader.received.some((text) => text.includes('"four"')));
  // Somebody who wants only one.
  const removeNext = chat.onMessage(({ content }) => {
    heard.push(content);
    removeNext();
  });
  await eventually("the next one is heard", () => heard.length === 2);
  reader.client.onMessage(({ content }) => void heard.push(content));
  await ana.client.chat(chat_id).send("five");
  await eventually("all are heard", () => heard.length >= 5);
  expect(heard).toEqual(words);
  await Promise.all([ana.close(), bo.close(), reader.close()]);
});

describe("a refused send", () => {
  test("rejects with the server's code, and those after it go on", async () => {
    const { ana, bo, chat_id } = await pair();
    const foreign = await bo.chatWith(`somebody-${Math.random()}`);
    const refused = ana.client.chat(foreign).send("may I?");
    await expect(refused).rejects.toBeInstanceOf(RefusedError);
    await expect(refused).rejects.toMatchObject({ code: "NOT_A_MEMBER", retryable: false });
    const options = { client_message_id: "twice" };
    await ana.client.chat(chat_id).send("first", options);
    const conflict = ana.client.chat(chat_id).send("other", options);
    const next = ana.client.chat(chat_id).send("next");
    await expect(conflict).rejects.toMatchObject({ code: "CONFLICT" });
    await expect(next).resolves.toMatchObject({ sequence: 2 });
    const same = await ana.client.chat(chat_id).send("first", options);
    expect(same).toMatchObject({ sequence: 1, duplicate: true });
    await Promise.all([ana.close(), bo.close()]);
  });

  test("is refused by the client itself where no server could take it", async () => {
    const { ana, bo, chat_id } = await pair();
    const chat = ana.client.chat(chat_id);
    await expect(chat.send("")).rejects.toMatchObject({ code: "INVALID_CONTENT" });
    await expect(chat.send("é".repeat(2049))).rejects.toMatchObject({ code: "INVALID_CONTENT" });
    const bad = { client_message_id: "a b" };
    await expect(chat.send("x", bad)).rejects.toMatchObject({ code: "INVALID_CLIENT_MESSAGE_ID" });
    await expect(chat.send("x", { content_type: "" })).rejects.toBeInstanceOf(HeartlineError);
    expect(ana.count("send_message")).toBe(0);
    await Promise.all([ana.close(), bo.close()]);
  });

  test("is told at once when the outbox is full, and the others when the client ends", async () => {
    const user = new User("nobody", server.url, { outbox_messages_max: 2 });
    const chat = user.client.chat("chat_01HF7YAT000000000000000001");
    const waiting = [chat.send("one"), chat.send("two", { client_message_id: "two" })];
    const answers = Promise.allSettled(waiting);
    const again = chat.send("two", { client_message_id: "two" });
    await expect(again).rejects.toMatchObject({ code: "ALREADY_WAITING" });
    await expect(chat.send("three")).rejects.toMatchObject({ code: "OUTBOX_FULL" });
    await user.close();
    for (const answer of await answers) {
      expect(answer).toMatchObject({ status: "rejected", reason: { code: "CLOSED" } });
    }
    await expect(chat.send("four")).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describe("besides messages", () => {
  test("presence is told with every change, and unknown when nobody knows", async () => {
    const { ana, bo } = await pair();
    const told: Presence[] = [];
    ana.client.presence.onChange((presence) => told.push(presence));
    ana.client.presence.subscribe([bo.user_id, "hermit"]);
    const statuses = () =>
      told.filter(({ user_id }) => user_id === bo.user_id).map(({ status }) => status);
    await eventually("bo is online", () => statuses().at(-1) === "online");
    expect(ana.client.presence.get("never heard of").status).toBe("unknown");
    await bo.close();
    await eventually("bo is offline", () => statuses().at(-1) === "offline");
    expect(statuses()).toEqual(["online", "offline"]);
    expect(ana.client.presence.get(bo.user_id).last_seen).toBeDefined();
    ana.client.presence.unsubscribe([bo.user_id]);
    expect(ana.client.presence.get(bo.user_id).status).toBe("unknown");
    const crowd = Array.from({ length: 1000 }, (_, number) => `user-${number}`);
    expect(() => ana.client.presence.subscribe(crowd)).toThrow(HeartlineError);
    await ana.close();
  });

  test("typing is told once until its message, and events and changes of chats come", async () => {
    const { ana, bo, chat_id } = await pair();
    const typing: boolean[] = [];
    bo.client.chat(chat_id).onTyping((user_id, is_typing) => {
      expect(user_id).toBe(ana.user_id);
      typing.push(is_typing);
    });
    for (let key = 0; key < 20; key += 1) ana.client.chat(chat_id).typing();
    await eventually("bo sees it", () => typing.length === 1);
    ana.client.chat(chat_id).typing(false);
    await eventually("bo sees its end", () => typing.length === 2);
    expect(typing).toEqual([true, false]);
    expect(ana.count("typing")).toBe(2);

    // A message says that its typing has ended, and what is typed after it is said anew.
    ana.client.chat(chat_id).typing();
    await eventually("bo sees it again", () => typing.length === 3);
    await ana.client.chat(chat_id).send("done");
    // Long before it would end by itself.
    await eventually("the message ends it", () => typing.length === 4, 6000);
    ana.client.chat(chat_id).typing(false);
    ana.client.chat(chat_id).typing();
    await eventually("bo sees the next one", () => typing.length === 5, 3000);
    expect(typing).toEqual([true, false, true, false, true]);
    expect(ana.count("typing")).toBe(4);

    const events: unknown[] = [];
    ana.client.onEvent((name, data) => events.push([name, data]));
    const body = JSON.stringify({ user_ids: [ana.user_id], name: "order", data: { paid: true } });
    const headers = {
      Authorization: `Bearer ${serviceToken()}`,
      "Content-Type": "application/json",
    };
    await fetch(`${server.url}/v1/push`, { method: "POST", headers, body });
    await eventually("the event comes", () => events.length === 1);
    expect(events).toEqual([["order", { paid: true }]]);

    const changes: string[] = [];
    bo.client.onChatChanged(({ change, chat }) => changes.push(`${change} ${chat?.name}`));
    const { rest } = ana.client;
    const group = await rest.createChat({ type: "group", name: "Friday", member_ids: [] });
    await rest.addMember(group.chat_id, bo.user_id);
    await rest.renameChat(group.chat_id, "Saturday");
    await rest.removeMember(group.chat_id, bo.user_id);
    await eventually("bo hears of it", () => changes.length === 3);
    const [added, renamed, removed] = changes;
    expect([added, renamed]).toEqual(["member_added Friday", "renamed Saturday"]);
    expect(removed).toBe("member_removed undefined");
    await Promise.all([ana.close(), bo.close()]);
  });
});
