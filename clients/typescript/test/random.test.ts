/** Two tabs of one user, and another who listens, on a network and a server that fail at random. */
import "fake-indexeddb/auto";
import { afterEach, expect, test } from "vitest";
import { HeartlineError, IndexedDbStorage, type Message, type Receipt } from "../src/index.js";
import { eventually, passes } from "./harness/eventually.js";
import { Locks } from "./harness/locks.js";
import { FakePage } from "./harness/page.js";
import { Proxy } from "./harness/proxy.js";
import { Random } from "./harness/random.js";
import { Server } from "./harness/server.js";
import { Timers } from "./harness/timers.js";
import { token } from "./harness/token.js";
import { User, isGapFree } from "./harness/user.js";

/** How long things go wrong, for each seed. */
const TROUBLE_MS = 6000;
/** How long they go wrong altogether. */
const IS_LONG = process.env["HEARTLINE_LONG"] === "1";
const ALL_MS = IS_LONG ? 10 * 60_000 : TROUBLE_MS;
const FIRST_SEED = Number(process.env["HEARTLINE_SEED"] ?? 1);

const CONFIGURATION = `
[limits]
send_rate = 1000
send_burst = 1000
[gateway]
heartbeat_interval = "500ms"
heartbeat_timeout = "1500ms"
`;

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** One page of a tab after the other. */
class Tab {
  readonly page = new FakePage();
  user: User;
  /** Every word that was given to a page, by chat. */
  readonly words = new Map<string, string[]>();
  readonly receipts = new Map<string, Receipt>();
  readonly surprises: unknown[] = [];
  readonly users: User[] = [];
  unsettled = 0;
  #number = 0;
  #isReloading = false;

  constructor(
    readonly name: string,
    readonly makeUser: (tab: Tab) => User,
  ) {
    this.user = this.open();
  }

  /** The next page of the tab. */
  open(): User {
    this.user = this.makeUser(this);
    this.users.push(this.user);
    void this.user.client.connect().catch(() => {});
    return this.user;
  }

  /** Says something new, if there is a page. */
  say(chat_id: string): void {
    if (this.#isReloading) return;
    this.#number += 1;
    const word = `${this.name}-${this.#number}`;
    const words = this.words.get(chat_id) ?? [];
    this.words.set(chat_id, [...words, word]);
    this.unsettled += 1;
    this.user.client
      .chat(chat_id)
      .send(word, { client_message_id: word })
      .then((receipt) => this.receipts.set(word, receipt))
      .catch((error: unknown) => {
        // The page is over; the next one sends it.
        const isClosed = error instanceof HeartlineError && error.code === "CLOSED";
        if (!isClosed) this.surprises.push(error);
      })
      .finally(() => (this.unsettled -= 1));
  }

  /** What all of its pages were told in a chat. */
  heard(chat_id: string): Message[] {
    return this.users.flatMap((user) => user.in(chat_id));
  }

  /** The page goes, and another one comes. */
  async reload(): Promise<void> {
    this.#isReloading = true;
    await this.user.close();
    this.#isReloading = false;
    this.open();
  }
}

/** What can go wrong; whatever is begun here is over when it resolves. */
class Trouble {
  constructor(
    readonly random: Random,
    readonly server: Server,
    readonly proxy: Proxy,
    readonly tabs: Tab[],
    readonly listener: Tab,
  ) {}

  async once(): Promise<void> {
    const { random, server, proxy } = this;
    const tab = random.pick(this.tabs);
    const kinds: (() => unknown)[] = [
      () => proxy.cut(),
      () => this.#while(() => proxy.down(), 100, 1500),
      () => this.#while(() => proxy.blackHole(), 100, 2500),
      () => this.#while(() => proxy.stall(), 100, 2000),
      () => this.#while(() => (proxy.delayMs = random.between(50, 700)), 500, 2000),
      async () => {
        proxy.blackHole();
        await passes(random.between(100, 2500));
        proxy.upForNewOnes();
      },
      async () => {
        await server.end("SIGKILL");
        await passes(random.between(0, 500));
        await server.start();
      },
      () => tab.reload(),
      () => this.listener.reload(),
      // A drained server asks for a pause of seconds, which is too long for a short test.
      async () => {
        if (!IS_LONG) return;
        await server.end("SIGTERM");
        await server.start();
      },
      async () => {
        tab.page.freeze();
        await passes(random.between(50, 1500));
        tab.page.resume();
      },
      () => tab.user.client.refreshToken().catch(() => {}),
      () => tab.user.client.retryNow(),
    ];
    await random.pick(kinds)();
  }

  async #while(begin: () => void, fromMs: number, toMs: number): Promise<void> {
    begin();
    await passes(this.random.between(fromMs, toMs));
    this.proxy.up();
  }
}

/** One run of troubles. */
async function run(seed: number): Promise<void> {
  const random = new Random(seed);
  const timers = new Timers();
  cleanUps.push(() => timers.end());
  const environment = { HEARTLINE__AUTH__LEEWAY: "0s" };
  const server = await Server.start({ configuration: CONFIGURATION, environment });
  cleanUps.push(() => server.remove());
  const proxy = await Proxy.to(() => server.port);
  cleanUps.push(() => proxy.remove());
  const bo = new Tab("bo", () => {
    const storage = new IndexedDbStorage({ user_id: "bo", name: `random-${seed}` });
    const made = new User("bo", server.url, { storage, keep_cursors: true });
    made.listen();
    return made;
  });
  cleanUps.push(() => bo.user.close());
  const locks = random.next() < 0.5 ? { locks: new Locks() } : {};
  const makeUser = ({ page: { window, document } }: Tab) => {
    const storage = new IndexedDbStorage({ user_id: "ana", name: `random-${seed}` });
    // Most tokens end soon.
    const anyToken = () => token("ana", random.pick([2, 3, 4, 3600]), { n: random.next() });
    const page = { storage, window, document, ...locks };
    const made = new User("ana", proxy.url, { ...page, token: anyToken });
    made.listen();
    return made;
  };
  const { rest } = bo.user.client;
  const group = await rest.createChat({ type: "group", name: "both", member_ids: ["ana"] });
  const chats = [await bo.user.chatWith("ana"), group.chat_id];
  const tabs = ["one", "two"].map((name) => new Tab(name, makeUser));
  cleanUps.push(...tabs.map((tab) => () => tab.user.close()));

  const end = Date.now() + TROUBLE_MS;
  const talk = async (tab: Tab) => {
    while (Date.now() < end) {
      for (let count = random.between(0, 6); count > 0; count -= 1) tab.say(random.pick(chats));
      tab.user.client.chat(random.pick(chats)).typing();
      await passes(random.between(5, 120));
    }
  };
  const trouble = new Trouble(random, server, proxy, tabs, bo);
  const suffer = async () => {
    while (Date.now() < end) {
      await trouble.once();
      // Otherwise pauses would grow, and there would be nobody whom the next trouble concerns.
      for (const tab of tabs) tab.user.client.retryNow();
      await passes(random.between(0, 1500));
    }
    proxy.up();
  };
  await Promise.all([...tabs.map(talk), suffer()]);

  for (const tab of [bo, ...tabs]) tab.user.client.retryNow();
  for (const tab of tabs) {
    await eventually(`tab ${tab.name} has every answer`, () => tab.unsettled === 0);
    expect(tab.surprises).toEqual([]);
  }
  for (const chat_id of chats) {
    const words = tabs.flatMap((tab) => tab.words.get(chat_id) ?? []);
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
  expect(messages.length).toBeGreaterThan(50);
  const stored = new Map(messages.map((message) => [message.client_message_id, message]));
  for (const receipt of tabs.flatMap((tab) => [...tab.receipts.values()])) {
    const { chat_id, message_id, sequence } = receipt;
    expect(stored.get(receipt.client_message_id)).toMatchObject({ chat_id, message_id, sequence });
  }
  for (const tab of tabs) expect(await tab.user.client.outbox.list()).toEqual([]);

  const users = [bo, ...tabs].flatMap((tab) => tab.users);
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
  const sockets = users.flatMap((user) => user.sockets);
  const isOver = () => sockets.every(({ readyState, CLOSED }) => readyState === CLOSED);
  await eventually("every socket is closed", isOver, 5000);
  expect(timers.left).toEqual([]);
}

test("whatever fails, everything arrives once and in order, and nothing is left over", async () => {
  const rejections: unknown[] = [];
  const note = (error: unknown) => void rejections.push(error);
  process.on("unhandledRejection", note);
  const begun = Date.now();
  for (let seed = FIRST_SEED; Date.now() < begun + ALL_MS; seed += 1) {
    try {
      await run(seed);
    } catch (error) {
      throw new Error(`with HEARTLINE_SEED=${seed}`, { cause: error });
    }
    if (Date.now() + TROUBLE_MS > begun + ALL_MS) break;
  }
  process.off("unhandledRejection", note);
  expect(rejections).toEqual([]);
}, ALL_MS + 240_000);
