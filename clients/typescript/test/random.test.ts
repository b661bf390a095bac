/** Two tabs of one user, and another who listens, on a network and a server that fail at random. */
import "fake-indexeddb/auto";
import { afterEach, expect, test } from "vitest";
import { IndexedDbStorage } from "../src/index.js";
import { eventually, passes } from "./harness/eventually.js";
import { Locks } from "./harness/locks.js";
import { Pages } from "./harness/pages.js";
import { Proxy } from "./harness/proxy.js";
import { Random } from "./harness/random.js";
import { Server } from "./harness/server.js";
import { Timers } from "./harness/timers.js";
import { token } from "./harness/token.js";
import { User, isGapFree } from "./harness/user.js";

/** With `HEARTLINE_LONG=1` one seed follows the other for so long; otherwise there is one. */
const IS_LONG = process.env["HEARTLINE_LONG"] === "1";
const LONG_MS = 10 * 60_000;
const FIRST_SEED = Number(process.env["HEARTLINE_SEED"] ?? 1);

const OPTIONS = {
  configuration: `
[limits]
send_rate = 1000
send_burst = 1000
[gateway]
heartbeat_interval = "500ms"
heartbeat_timeout = "1500ms"
`,
  environment: { HEARTLINE__AUTH__LEEWAY: "0s" },
};

const cleanUps: (() => unknown)[] = [];
async function cleanUp(): Promise<void> {
  for (const one of cleanUps.splice(0).reverse()) await one();
}
afterEach(cleanUp);

interface World {
  random: Random;
  server: Server;
  proxy: Proxy;
  /** Those of ana, behind the proxy. */
  tabs: Pages[];
  /** Has a direct line, and remembers how far it came. */
  bo: Pages;
  chats: string[];
}

async function worldOf(seed: number): Promise<World> {
  const random = new Random(seed);
  const server = await Server.start(OPTIONS);
  cleanUps.push(() => server.remove());
  const proxy = await Proxy.to(() => server.port);
  cleanUps.push(() => proxy.remove());
  const storageOf = (user_id: string) => new IndexedDbStorage({ user_id, name: `random-${seed}` });
  const bo = new Pages("bo", () => {
    return new User("bo", server.url, { storage: storageOf("bo"), keep_cursors: true });
  });
  const locks = random.next() < 0.5 ? { locks: new Locks() } : {};
  // Most tokens end soon.
  const anyToken = () => token("ana", random.pick([2, 3, 4, 3600]), { n: random.next() });
  const makeUser = ({ window, document }: Pages["page"]) => {
    const page = { storage: storageOf("ana"), window, document, ...locks };
    return new User("ana", proxy.url, { ...page, token: anyToken });
  };
  const tabs = ["one", "two"].map((name) => new Pages(name, makeUser));
  cleanUps.push(...[bo, ...tabs].map((tab) => () => tab.user.close()));
  const { rest } = bo.user.client;
  const group = await rest.createChat({ type: "group", name: "both", member_ids: ["ana"] });
  return { random, server, proxy, tabs, bo, chats: [await bo.user.chatWith("ana"), group.chat_id] };
}

/** Everything that goes wrong. Whatever is begun is over when its function resolves. */
function troublesOf({ random, server, proxy, tabs, bo }: World): (() => unknown)[] {
  const forAWhile = async (begin: () => void, mostMs: number) => {
    begin();
    await passes(random.between(100, mostMs));
  };
  const during = (begin: () => void, mostMs: number) => async () => {
    await forAWhile(begin, mostMs);
    proxy.up();
  };
  const restart = (signal: "SIGKILL" | "SIGTERM") => async () => {
    await server.end(signal);
    await passes(random.between(0, 300));
    await server.start();
  };
  const tab = () => random.pick(tabs);
  return [
    () => proxy.cut(),
    during(() => proxy.down(), 1000),
    during(() => proxy.blackHole(), 2000),
    during(() => proxy.stall(), 1200),
    during(() => (proxy.delayMs = random.between(50, 500)), 1200),
    async () => {
      await forAWhile(() => proxy.blackHole(), 1500);
      proxy.upForNewOnes();
    },
    restart("SIGKILL"),
    () => tab().reload(),
    () => bo.reload(),
    async () => {
      const { page } = tab();
      await forAWhile(() => page.freeze(), 1200);
      page.resume();
    },
    () => tab().user.client.refreshToken().catch(() => {}),
    // A drained server asks for a pause of seconds, which is too long for a short test.
    ...(IS_LONG ? [restart("SIGTERM")] : []),
  ];
}

/** Talks while everything goes wrong once, in any order. */
async function suffer(world: World): Promise<void> {
  const { random, tabs, chats } = world;
  let isOver = false;
  const talk = async (tab: Pages) => {
    while (!isOver) {
      for (let count = random.between(0, 4); count > 0; count -= 1) tab.say(random.pick(chats));
      tab.user.client.chat(random.pick(chats)).typing();
      await passes(random.between(5, 120));
    }
  };
  const talking = tabs.map(talk);
  const troubles = troublesOf(world);
  while (troubles.length > 0) {
    const [trouble] = troubles.splice(random.between(0, troubles.length), 1);
    await trouble?.();
    // Otherwise pauses would grow, and there would be nobody whom the next trouble concerns.
    for (const tab of tabs) tab.user.client.retryNow();
    await passes(random.between(0, 400));
  }
  isOver = true;
  await Promise.all(talking);
}

/** Every send has an answer, and bo has every message once and in order. */
async function expectEverything({ tabs, bo, chats }: World): Promise<void> {
  for (const tab of tabs) {
    await eventually(`tab ${tab.name} has every answer`, () => tab.unsettled === 0);
    expect(tab.surprises).toEqual([]);
  }
  for (const chat_id of chats) {
    const words = tabs.flatMap((tab) => tab.words.get(chat_id) ?? []);
    expect(words.length).toBeGreaterThan(20);
    for (const { user } of tabs) await user.hears(chat_id, words.length);
    await eventually("bo hears all", () => bo.heard(chat_id).length >= words.length);
    // Whatever came twice would have come by now or just after.
    await passes(300);
    // Together bo's pages got everything once, because each goes on where the one before was.
    expect(isGapFree(bo.heard(chat_id))).toBe(true);
    const heard = bo.heard(chat_id).map(({ content }) => content);
    expect([...heard].sort()).toEqual([...words].sort());
    for (const tab of tabs) {
      const own = heard.filter((word) => word.startsWith(`${tab.name}-`));
      expect(own).toEqual(tab.words.get(chat_id) ?? []);
      // Every page got everything, from the first on, as far as it came.
      for (const user of tab.users) expect(isGapFree(user.in(chat_id))).toBe(true);
    }
  }
  const messages = chats.flatMap((chat_id) => bo.heard(chat_id));
  const stored = new Map(messages.map((message) => [message.client_message_id, message]));
  for (const receipt of tabs.flatMap((tab) => tab.receipts)) {
    const { chat_id, message_id, sequence } = receipt;
    expect(stored.get(receipt.client_message_id)).toMatchObject({ chat_id, message_id, sequence });
  }
  for (const { user } of tabs) {
    const isEmpty = async () => (await user.client.outbox.list()).length === 0;
    await eventually("nothing waits", isEmpty);
  }
}

/** Closed clients have closed their sockets, and left no timer. */
async function expectNothingLeft({ tabs, bo }: World, timers: Timers): Promise<void> {
  const pages = [bo, ...tabs];
  for (const { user } of pages) await user.close();
  const areClosed = (sockets: User["sockets"]) =>
    sockets.every(({ readyState, CLOSED }) => readyState === CLOSED);
  const last = pages.flatMap(({ user }) => user.sockets.slice(-1));
  await eventually("the last sockets are closed", () => areClosed(last), 5000);
  expect(timers.left).toEqual([]);
  await cleanUp();
  // A page that went, or fell asleep, may wait for an answer to its close out of a black hole.
  const all = pages.flatMap(({ users }) => users.flatMap(({ sockets }) => sockets));
  await eventually("all sockets are closed", () => areClosed(all), 5000);
}

test("whatever fails, everything arrives once and in order, and nothing is left over", async () => {
  const rejections: unknown[] = [];
  const note = (error: unknown) => void rejections.push(error);
  process.on("unhandledRejection", note);
  const begun = Date.now();
  let seed = FIRST_SEED;
  try {
    do {
      const timers = new Timers();
      cleanUps.push(() => timers.end());
      const world = await worldOf(seed);
      await suffer(world);
      for (const tab of [world.bo, ...world.tabs]) tab.user.client.retryNow();
      await expectEverything(world);
      await expectNothingLeft(world, timers);
      expect(rejections).toEqual([]);
      seed += 1;
    } while (IS_LONG && Date.now() < begun + LONG_MS);
  } catch (error) {
    throw new Error(`with HEARTLINE_SEED=${seed}: ${String(error)}`, { cause: error });
  } finally {
    process.off("unhandledRejection", note);
  }
}, LONG_MS + 240_000);
