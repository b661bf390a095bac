import "fake-indexeddb/auto";
import { afterEach, describe, expect, test } from "vitest";
import {
  type Draft,
  IndexedDbStorage,
  MemoryStorage,
  RefusedError,
  type SendOutcome,
  type StoredDraft,
} from "../src/index.js";
import { eventually, passes } from "./harness/eventually.js";
import { Locks } from "./harness/locks.js";
import { FakePage } from "./harness/page.js";
import { Proxy } from "./harness/proxy.js";
import { Server } from "./harness/server.js";
import { User, isGapFree } from "./harness/user.js";

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function server(): Promise<Server> {
  const started = await Server.start({
    configuration: "[limits]\nsend_rate = 1000\nsend_burst = 1000",
  });
  cleanUps.push(() => started.remove());
  return started;
}

let names = 0;
/** A database of its own. */
function database(user_id: string): () => IndexedDbStorage {
  names += 1;
  const name = `test-${names}`;
  return () => new IndexedDbStorage({ user_id, name });
}

/** How often each message was written to a socket, by all of these. */
function attempts(...users: User[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const frame of users.flatMap((user) => user.sent)) {
    if (frame.type !== "send_message") continue;
    counts.set(frame.client_message_id, (counts.get(frame.client_message_id) ?? 0) + 1);
  }
  return counts;
}

describe.each([
  ["with Web Locks", () => ({ locks: new Locks() })],
  ["without them", () => ({})],
])("two tabs of one outbox %s", (_, locking) => {
  test("send each message once, in order, and each is told of its own", async () => {
    const { url } = await server();
    const options = locking();
    const storage = database("ana");
    const one = await User.connected("ana", url, { storage: storage(), ...options });
    const two = await User.connected("ana", url, { storage: storage(), ...options });
    const bo = await User.connected("bo", url);
    cleanUps.push(() => one.close(), () => two.close(), () => bo.close());
    const chat_id = await one.chatWith("bo");
    const words = Array.from({ length: 30 }, (__, number) => `${number}`);
    const answers = words.map((word, number) =>
      (number % 2 === 0 ? one : two).client.chat(chat_id).send(word),
    );
    const receipts = await Promise.all(answers);
    expect(receipts.every(({ duplicate }) => !duplicate)).toBe(true);
    const messages = await bo.hears(chat_id, 30);
    expect(isGapFree(messages)).toBe(true);
    for (const tab of [0, 1]) {
      const mine = messages.filter(({ content }) => Number(content) % 2 === tab);
      expect(mine.map(({ content }) => content)).toEqual(
        words.filter((word) => Number(word) % 2 === tab),
      );
    }
    expect([...attempts(one, two).values()]).toEqual(words.map(() => 1));
    for (const tab of [one, two]) expect(isGapFree(await tab.hears(chat_id, 30))).toBe(true);
  });

  test("go on in the other tab when the one that sends ends", async () => {
    const { url } = await server();
    const options = locking();
    const storage = database("ana");
    const one = await User.connected("ana", url, { storage: storage(), ...options });
    const chat_id = await one.chatWith("bo");
    await one.client.chat(chat_id).send("by the first");
    const two = await User.connected("ana", url, { storage: storage(), ...options });
    cleanUps.push(() => two.close());
    const refused = two.client.chat("chat_01HF7YAT000000000000000001").send("nowhere");
    await expect(refused).rejects.toBeInstanceOf(RefusedError);
    expect(two.count("send_message")).toBe(0);
    await one.close();
    await expect(two.client.chat(chat_id).send("by the second")).resolves.toMatchObject({
      sequence: 2,
    });
    expect(two.count("send_message")).toBe(1);
  });
});

test("a tab that learns too late how its message ended asks the server again", async () => {
  const { url } = await server();
  /** Has forgotten how the first message ended when it is asked. */
  class Forgetful extends MemoryStorage {
    settled = 0;

    override async settle(draft: StoredDraft, outcome: SendOutcome): Promise<void> {
      this.settled += 1;
      await super.settle(draft, outcome);
    }

    override async outcomes(keys: string[]): Promise<[string, SendOutcome][]> {
      return this.settled === 1 ? [] : await super.outcomes(keys);
    }
  }
  const options = { storage: new Forgetful({ user_id: "ana" }), locks: new Locks() };
  const one = await User.connected("ana", url, options);
  const two = await User.connected("ana", url, options);
  cleanUps.push(() => one.close(), () => two.close());
  const chat_id = await one.chatWith("bo");
  const receipt = await two.client.chat(chat_id).send("hello");
  expect(receipt).toMatchObject({ sequence: 1, duplicate: true });
  expect([...attempts(one, two).values()]).toEqual([2]);
  await two.hears(chat_id, 1);
  expect(two.contents(chat_id)).toEqual(["hello"]);
});

test("a storage that fails for a while delays a message, and keeps none", async () => {
  const { url } = await server();
  const failing = { reads: 0 };
  class Failing extends MemoryStorage {
    override async draftsAfter(order: number): Promise<StoredDraft[]> {
      failing.reads -= 1;
      if (failing.reads >= 0) throw new Error("not now");
      return await super.draftsAfter(order);
    }
  }
  const options = { storage: new Failing({ user_id: "ana" }), locks: new Locks() };
  const one = await User.connected("ana", url, options);
  const two = await User.connected("ana", url, options);
  cleanUps.push(() => one.close(), () => two.close());
  const chat_id = await one.chatWith("bo");
  // Both of them read: one to send it, the other to learn how it ended.
  failing.reads = 2;
  await two.client.chat(chat_id).send("hello");
  expect(failing.reads).toBeLessThan(0);
});

test("two applications of one origin do not wait for each other", async () => {
  const { url } = await server();
  const locks = new Locks();
  const storage = (name: string) => new IndexedDbStorage({ user_id: "ana", name });
  const one = await User.connected("ana", url, { storage: storage("one"), locks });
  const two = await User.connected("ana", url, { storage: storage("two"), locks });
  cleanUps.push(() => one.close(), () => two.close());
  const chat_id = await one.chatWith("bo");
  for (const user of [one, two]) await user.client.chat(chat_id).send("hello");
});

test("a tab that sleeps does not keep the others from sending", async () => {
  const { url } = await server();
  const storage = database("ana");
  const locks = new Locks();
  const page = new FakePage();
  const { window, document } = page;
  const one = await User.connected("ana", url, { storage: storage(), locks, window, document });
  const chat_id = await one.chatWith("bo");
  await one.client.chat(chat_id).send("by the first");
  const two = await User.connected("ana", url, { storage: storage(), locks });
  cleanUps.push(() => one.close(), () => two.close());
  page.freeze();
  expect(one.client.state).toBe("asleep");
  await two.client.chat(chat_id).send("by the second");
  expect([one.count("send_message"), two.count("send_message")]).toEqual([1, 1]);
});

describe("an outbox that lasts", () => {
  test("is sent by the next page after the server was killed in mid-send", async () => {
    const running = await server();
    const proxy = await Proxy.to(() => running.port);
    cleanUps.push(() => proxy.remove());
    const storage = database("ana");
    const first = await User.connected("ana", proxy.url, { storage: storage() });
    const bo = await User.connected("bo", running.url);
    cleanUps.push(() => bo.close());
    const chat_id = await first.chatWith("bo");
    await first.client.chat(chat_id).send("0");
    // The server stores the next one, but its answer never arrives.
    proxy.stall();
    const words = Array.from({ length: 20 }, (_, number) => `${number + 1}`);
    const answers = Promise.allSettled(words.map((word) => first.client.chat(chat_id).send(word)));
    await bo.hears(chat_id, 2);
    await running.end("SIGKILL");
    proxy.down();
    await first.close();
    const closed = { reason: { code: "CLOSED" } };
    for (const answer of await answers) expect(answer).toMatchObject(closed);
    await running.start();
    proxy.up();
    const second = await User.connected("ana", proxy.url, { storage: storage() });
    cleanUps.push(() => second.close());
    for (const user of [bo, second]) {
      await user.hears(chat_id, 21);
      expect(user.contents(chat_id)).toEqual(["0", ...words]);
      expect(isGapFree(user.in(chat_id))).toBe(true);
    }
    await second.client.chat(chat_id).send("after");
    expect(attempts(second).size).toBe(21);
  });

  test("shows what waits, after a reload too, until it is stored", async () => {
    const running = await server();
    const proxy = await Proxy.to(() => running.port);
    cleanUps.push(() => proxy.remove());
    const storage = database("ana");
    const first = await User.connected("ana", proxy.url, { storage: storage() });
    const chat_id = await first.chatWith("bo");
    expect(await first.client.outbox.list()).toEqual([]);
    proxy.down();
    let changes = 0;
    first.client.outbox.onChange(() => (changes += 1));
    const words = ["one", "two", "three"];
    for (const word of words) first.client.chat(chat_id).send(word).catch(() => {});
    const shown = async (user: User) => {
      return (await user.client.outbox.list()).map(({ content }) => content);
    };
    await eventually("all wait", async () => (await shown(first)).length === 3);
    expect(await shown(first)).toEqual(words);
    expect(changes).toBe(3);
    await first.close();

    const second = new User("ana", proxy.url, { storage: storage() });
    cleanUps.push(() => second.close());
    expect(await shown(second)).toEqual(words);
    const left: string[] = [];
    second.client.outbox.onChange(async () => void left.push((await shown(second)).join()));
    proxy.up();
    await second.client.connect();
    await eventually("nothing waits", () => left.at(-1) === "");
    expect(left.every((waiting) => words.join().endsWith(waiting))).toBe(true);
  });

  test("tells of what was refused although nobody waits any more", async () => {
    const { url } = await server();
    const storage = database("ana");
    const first = new User("ana", url, { storage: storage() });
    const nowhere = first.client.chat("chat_01HF7YAT000000000000000001").send("nowhere");
    nowhere.catch(() => {});
    await eventually("it is stored", async () => {
      const look = storage();
      const drafts = await look.draftsAfter(0);
      look.close();
      return drafts.length === 1;
    });
    await first.close();
    const second = new User("ana", url, { storage: storage() });
    cleanUps.push(() => second.close());
    const refused: [Draft, RefusedError][] = [];
    second.client.onRefused((draft, error) => refused.push([draft, error]));
    await second.client.connect();
    await eventually("it is told", () => refused.length === 1);
    expect(refused[0]?.[0]).toMatchObject({ content: "nowhere" });
    expect(refused[0]?.[1]).toMatchObject({ code: "NOT_A_MEMBER" });
    const left = await storage().draftsAfter(0);
    expect(left).toEqual([]);
  });

  test("goes on where the application was, and repeats nothing", async () => {
    const { url } = await server();
    const storage = database("bo");
    const ana = await User.connected("ana", url);
    cleanUps.push(() => ana.close());
    const chat_id = await ana.chatWith("bo");
    const options = { keep_cursors: true };
    const first = await User.connected("bo", url, { storage: storage(), ...options });
    for (const word of ["1", "2", "3"]) await ana.client.chat(chat_id).send(word);
    await first.hears(chat_id, 3);
    await first.close();
    for (const word of ["4", "5"]) await ana.client.chat(chat_id).send(word);
    const second = await User.connected("bo", url, { storage: storage(), ...options });
    cleanUps.push(() => second.close());
    await second.hears(chat_id, 2);
    await passes(300);
    expect(second.contents(chat_id)).toEqual(["4", "5"]);
  });

  test("is not sent from by somebody else", async () => {
    const { url } = await server();
    const storage = new MemoryStorage({ user_id: "ana" });
    const eve = new User("eve", url, { storage });
    cleanUps.push(() => eve.close());
    await expect(eve.client.connect()).rejects.toMatchObject({ code: "STOPPED" });
    expect(eve.client.stop_reason).toBe("storage_of_another_user");
    expect(eve.count("send_message")).toBe(0);
  });
});
