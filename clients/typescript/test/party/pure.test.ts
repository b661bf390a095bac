/** The parts of the library that need no server. */
import { describe, expect, it } from "vitest";
import { type Edit, contentsWith } from "../../src/party/edit.js";
import {
  type QueueChange, type QueueContents, type QueueDelta, type SessionUser, fullSyncOf,
} from "../../src/party/events.js";
import { graphqlUrlOf } from "../../src/party/endpoint.js";
import { orderHash, stateHash } from "../../src/party/hash.js";
import { itemOf, mirroredItem } from "../../src/party/item.js";
import { PENDING_MAX, PendingEdits } from "../../src/party/pending.js";
import { EMPTY, queueAfter } from "../../src/party/queue.js";
import { Memory, type PartyStorage } from "../../src/party/remembered.js";
import { Replica } from "../../src/party/replica.js";
import { Roster } from "../../src/party/roster.js";
import { item, uuid } from "./climbs.js";

const items = (...numbers: number[]) => numbers.map((number) => itemOf(item(number)));
const contents = (numbers: number[], current: number | null = null): QueueContents => ({
  queue: items(...numbers),
  current: current === null ? null : itemOf(item(current)),
});
const uuids = ({ queue }: QueueContents) => queue.map((queued) => queued.uuid);

/** An event with the hashes of what it leads to. */
function delta(sequence: number, change: QueueChange, after: QueueContents, more = {}): QueueDelta {
  const hashes = {
    stateHash: stateHash(after.queue, after.current),
    orderHash: orderHash(after.queue, after.current),
  };
  const nobody = { incarnation: 0, clientId: null, correlationId: null };
  return { sequence, ...nobody, ...hashes, ...change, ...more };
}

function whole(sequence: number, { queue, current }: QueueContents, more = {}) {
  return fullSyncOf({
    sequence,
    incarnation: 0,
    queue,
    currentClimbQueueItem: current,
    stateHash: stateHash(queue, current),
    orderHash: orderHash(queue, current),
    ...more,
  });
}

const added = (number: number): QueueChange => ({
  type: "QueueItemAdded", item: itemOf(item(number)), position: number - 1,
});

describe("an edit and its event lead to the same", () => {
  const before = contents([1, 2, 3], 2);
  const cases: [string, Edit, QueueChange, QueueContents][] = [
    ["add", { name: "addQueueItem", item: itemOf(item(4)), position: 1 },
      { type: "QueueItemAdded", item: itemOf(item(4)), position: 1 }, contents([1, 4, 2, 3], 2)],
    ["add beyond the end", { name: "addQueueItem", item: itemOf(item(4)), position: 99 },
      { type: "QueueItemAdded", item: itemOf(item(4)), position: 3 }, contents([1, 2, 3, 4], 2)],
    ["remove", { name: "removeQueueItem", uuid: uuid(1) },
      { type: "QueueItemRemoved", uuid: uuid(1) }, contents([2, 3], 2)],
    ["remove the current", { name: "removeQueueItem", uuid: uuid(2) },
      { type: "QueueItemRemoved", uuid: uuid(2) }, contents([1, 3])],
    ["reorder", { name: "reorderQueueItem", uuid: uuid(1), oldIndex: 0, newIndex: 2 },
      { type: "QueueReordered", uuid: uuid(1), oldIndex: 0, newIndex: 2 }, contents([2, 3, 1], 2)],
    ["set the current", { name: "setCurrentClimb", item: itemOf(item(9)), shouldAddToQueue: false },
      { type: "CurrentClimbChanged", item: itemOf(item(9)) }, contents([1, 2, 3], 9)],
    ["clear the current", { name: "setCurrentClimb", item: null, shouldAddToQueue: false },
      { type: "CurrentClimbChanged", item: null }, contents([1, 2, 3])],
  ];
  it.each(cases)("%s", (_name, edit, change, expected) => {
    expect(contentsWith(before, edit)).toEqual(expected);
    const hashes = { stateHash: null, orderHash: null };
    const queue = { sequence: 7, incarnation: 0, contents: before, hashes };
    expect(queueAfter(queue, delta(8, change, expected))?.contents).toEqual(expected);
    expect(before).toEqual(contents([1, 2, 3], 2));
  });

  it("mirror", () => {
    const after = contentsWith(before, { name: "mirrorCurrentClimb", mirrored: true });
    expect(after.current?.climb.mirrored).toBe(true);
    expect(after.queue.map((queued) => queued.climb.mirrored)).toEqual([false, true, false]);
    expect(contentsWith(after, { name: "mirrorCurrentClimb", mirrored: true })).toBe(after);
  });

  it("replace and set, which others see as a whole state", () => {
    const replace: Edit = { name: "replaceQueueItem", uuid: uuid(2), item: itemOf(item(5)) };
    const replaced = contentsWith(before, replace);
    expect(replaced).toEqual(contents([1, 5, 3], 5));
    const set = contentsWith(before, { name: "setQueue", queue: items(3, 1), current: null });
    expect(set).toEqual(contents([3, 1]));
  });

  it.each<[string, Edit]>([
    ["an add of what is there", { name: "addQueueItem", item: itemOf(item(1)), position: null }],
    ["a remove of what is not there", { name: "removeQueueItem", uuid: uuid(9) }],
    ["a move to the same place",
      { name: "reorderQueueItem", uuid: uuid(1), oldIndex: 0, newIndex: 0 }],
    ["a move beyond the end",
      { name: "reorderQueueItem", uuid: uuid(1), oldIndex: 0, newIndex: 3 }],
    ["the same current",
      { name: "setCurrentClimb", item: itemOf(item(2)), shouldAddToQueue: true }],
    ["the same mirroring", { name: "mirrorCurrentClimb", mirrored: false }],
    ["a replacement of nothing",
      { name: "replaceQueueItem", uuid: uuid(9), item: itemOf(item(5)) }],
    ["a replacement by a second of one uuid",
      { name: "replaceQueueItem", uuid: uuid(1), item: itemOf(item(2)) }],
    ["the same queue", { name: "setQueue", queue: items(1, 2, 3), current: itemOf(item(2)) }],
  ])("%s changes nothing", (_name, edit) => {
    expect(contentsWith(before, edit)).toBe(before);
  });
});

it("an item is sent with the fields that clients may send, and cannot be changed", () => {
  const climb = { ...item(1).climb, layoutId: 3, boardType: "x", own: 2 };
  const given = { ...item(1), extra: 1, climb };
  const taken = itemOf(given);
  expect(taken).toEqual(item(1));
  expect(() => ((taken.climb as { name: string }).name = "other")).toThrow(TypeError);
  expect(mirroredItem(taken, true).climb.mirrored).toBe(true);
});

describe("pending edits", () => {
  const add = (number: number): Edit => ({
    name: "addQueueItem", item: itemOf(item(number)), position: null,
  });
  const at = (sequence: number) => ({ sequence, incarnation: 0 });

  it("are shown on top of what is confirmed, and taken back by forgetting them", () => {
    const pending = new PendingEdits();
    const first = pending.push("a", add(2));
    pending.push("b", { name: "reorderQueueItem", uuid: uuid(2), oldIndex: 1, newIndex: 0 });
    expect(uuids(pending.shown(contents([1])))).toEqual([2, 1].map(uuid));
    expect(uuids(pending.shown(contents([7, 1])))).toEqual([2, 7, 1].map(uuid));
    pending.drop(first);
    expect(uuids(pending.shown(contents([7, 1])))).toEqual([7, 1].map(uuid));
  });

  it("are confirmed by the event of their name, set-and-add by its second event", () => {
    const pending = new PendingEdits();
    pending.push("a", add(1));
    pending.push("b", { name: "setCurrentClimb", item: itemOf(item(2)), shouldAddToQueue: true });
    pending.confirm(delta(1, added(1), EMPTY, { correlationId: "a" }));
    pending.confirm(delta(2, added(2), EMPTY, { correlationId: "b" }));
    expect(pending.size).toBe(1);
    const change: QueueChange = { type: "CurrentClimbChanged", item: itemOf(item(2)) };
    pending.confirm(delta(3, change, EMPTY, { correlationId: "b" }));
    expect(pending.size).toBe(0);
  });

  it("that were answered stay until they are part of what is confirmed", () => {
    const pending = new PendingEdits();
    const one = pending.push("a", add(1));
    one.isAnswered = true;
    pending.settle(EMPTY, at(0));
    expect(pending.size).toBe(1);
    pending.settle(contents([1]), at(1));
    expect(pending.size).toBe(0);
    const set = pending.push("b", { name: "setQueue", queue: [], current: null });
    set.isAnswered = true;
    set.answeredAt = at(3);
    pending.settle(contents([1]), at(2));
    expect(pending.size).toBe(1);
    // Somebody has added something since: that it is not empty does not mean that it is not done.
    pending.settle(contents([5]), at(4));
    expect(pending.size).toBe(0);
  });

  it("are bounded", () => {
    const pending = new PendingEdits();
    for (let number = 0; number < PENDING_MAX; number += 1) {
      pending.push(String(number), add(number));
    }
    expect(() => pending.push("more", add(99))).toThrow(/50 edits are pending/);
    expect(pending.size).toBe(PENDING_MAX);
  });
});

describe("a replica", () => {
  const heard: number[] = [];
  const applied = (event: QueueDelta) => void heard.push(event.sequence);
  const upTo = (count: number) => contents(Array.from({ length: count }, (_, index) => index + 1));

  it("applies events in order, and lets later ones wait", () => {
    const replica = new Replica();
    heard.length = 0;
    expect(replica.hear(delta(1, added(1), upTo(1)), 0, applied)).toBe("fine");
    expect(replica.queue).toBeNull();
    expect(replica.hear(whole(0, EMPTY), 0, applied)).toBe("fine");
    expect(replica.hear(delta(3, added(3), upTo(3)), 0, applied)).toBe("replay");
    expect(replica.hear(delta(4, added(4), upTo(4)), 0, applied)).toBe("replay");
    expect(heard).toEqual([]);
    const missed = [1, 2, 3].map((number) => delta(number, added(number), upTo(number)));
    expect(replica.replayed(missed, 0, applied)).toBe("fine");
    expect(heard).toEqual([1, 2, 3, 4]);
    expect(replica.hear(delta(4, added(4), upTo(4)), 0, applied)).toBe("fine");
    expect(heard).toEqual([1, 2, 3, 4]);
    expect(replica.queue?.contents).toEqual(upTo(4));
  });

  it("replays up to a hundred events, and fetches everything beyond that", () => {
    for (const [sequence, verdict] of [[100, "replay"], [101, "resync"]] as const) {
      const replica = new Replica();
      replica.hear(whole(0, EMPTY), 0, applied);
      expect(replica.hear(delta(sequence, added(1), EMPTY), 0, applied)).toBe(verdict);
    }
  });

  it("fetches everything if a replay leaves something open", () => {
    const replica = new Replica();
    replica.hear(whole(0, EMPTY), 0, applied);
    replica.hear(delta(5, added(5), EMPTY), 0, applied);
    expect(replica.replayed([delta(1, added(1), upTo(1))], 0, applied)).toBe("resync");
  });

  it("takes a whole state from a replay unless the stream is ahead of it", () => {
    const replica = new Replica();
    replica.hear(whole(0, EMPTY), 0, applied);
    replica.hear(delta(3, added(3), upTo(3)), 0, applied);
    expect(replica.replayed([whole(2, upTo(2))], 0, applied)).toBe("fine");
    expect(replica.queue?.sequence).toBe(3);
    expect(replica.replayed([whole(2, upTo(2))], 0, applied)).toBe("fine");
    expect(replica.queue?.sequence).toBe(3);
  });

  it("notices drift with the next event, in order and content too", () => {
    const other = contents([2, 1]);
    for (const drifted of [other, contents([1, 3]), { ...upTo(2), current: itemOf(item(1)) }]) {
      const replica = new Replica();
      replica.hear(whole(2, drifted), 0, applied);
      expect(replica.hear(delta(3, added(3), upTo(3)), 0, applied)).toBe("resync");
      expect(replica.queue?.sequence).toBe(2);
      expect(replica.hear(whole(3, upTo(3)), 0, applied)).toBe("fine");
      expect(replica.verdict(0)).toBe("fine");
      expect(replica.patienceMs(0)).toBe(Number.POSITIVE_INFINITY);
    }
  });

  it.each(["stateHash", "orderHash"])("verifies the %s of every event by itself", (hash) => {
    const replica = new Replica();
    expect(replica.hear(whole(2, upTo(2)), 0, applied)).toBe("fine");
    expect(replica.hear(delta(3, added(3), upTo(3)), 0, applied)).toBe("fine");
    const wrong = delta(4, added(4), upTo(4), { [hash]: "0" });
    expect(replica.hear(wrong, 0, applied)).toBe("resync");
  });

  it("fetches everything of a new incarnation, and ignores what comes from an old one", () => {
    const replica = new Replica();
    replica.hear(whole(5, EMPTY, { incarnation: 1 }), 0, applied);
    expect(replica.hear(delta(6, added(1), upTo(1)), 0, applied)).toBe("fine");
    expect(replica.queue?.sequence).toBe(5);
    const restored = delta(10_006, added(1), upTo(1), { incarnation: 2 });
    expect(replica.hear(restored, 0, applied)).toBe("resync");
    expect(replica.hear(whole(3, upTo(1), { incarnation: 2 }), 0, applied)).toBe("fine");
    expect(replica.queue?.sequence).toBe(3);
  });

  it("filters items that are not there, and asks again at most every thirty seconds", () => {
    const replica = new Replica();
    const damaged = { ...whole(1, upTo(2)), ...fullSyncOf({
      sequence: 1, incarnation: 0, queue: [...upTo(2).queue, null],
    }) };
    expect(replica.hear(damaged, 1_000, applied)).toBe("resync");
    expect(replica.queue?.contents).toEqual(upTo(2));
    expect(replica.hear(damaged, 30_999, applied)).toBe("fine");
    expect([replica.patienceMs(30_999), replica.verdict(30_999)]).toEqual([1, "fine"]);
    expect(replica.verdict(31_000)).toBe("resync");
    // That was asked for already.
    expect(replica.hear(damaged, 31_000, applied)).toBe("fine");
    const nothing: QueueChange = { type: "QueueItemAdded", item: null, position: 2 };
    expect(replica.hear(delta(2, nothing, upTo(3)), 31_001, applied)).toBe("fine");
    expect(replica.hear(delta(3, added(3), upTo(4)), 31_002, applied)).toBe("fine");
    expect(uuids(replica.queue?.contents as QueueContents)).toEqual([1, 2, 3].map(uuid));
  });

  it("clears the current climb when a whole state has none", () => {
    const replica = new Replica();
    replica.hear(whole(1, contents([1], 1)), 0, applied);
    replica.hear(whole(2, contents([1])), 0, applied);
    expect(replica.queue?.contents.current).toBeNull();
  });
});

describe("a roster", () => {
  const user = (id: string, isLeader = false): SessionUser => ({
    id, username: id, isLeader, avatarUrl: null,
  });
  const ids = (roster: Roster) => roster.members.map(({ id }) => id);
  const joined = (id: string, sequence: number | null = null) =>
    ({ type: "UserJoined", sequence, user: user(id) }) as const;
  const leads = (leaderId: string, sequence: number | null = null) =>
    ({ type: "LeaderChanged", sequence, leaderId }) as const;

  it("is replaced by everybody who is told of, and shows one leader", () => {
    const roster = new Roster();
    roster.set([user("ana", true), user("gone")]);
    for (const event of [joined("ana"), joined("bo"), leads("ana")]) {
      roster.hear(event);
    }
    expect(ids(roster)).toEqual(["ana", "bo"]);
    roster.hear(joined("cy", 4));
    roster.hear({ type: "UserLeft", sequence: 5, userId: "ana" });
    expect(roster.hear(leads("bo", 6))).toBe(true);
    expect(roster.members).toEqual([user("bo", true), user("cy")]);
    roster.hear({ ...joined("cy", 7), user: { ...user("cy"), username: "Cyril" } });
    expect(roster.members[1]?.username).toBe("Cyril");
  });

  it("notices that an event is missing", () => {
    const roster = new Roster();
    roster.hear(joined("ana"));
    roster.hear(leads("ana"));
    expect(roster.hear(joined("bo", 7))).toBe(true);
    expect(roster.hear(joined("cy", 9))).toBe(false);
  });
});

it.each([
  ["https://example.com", "wss://example.com/graphql"],
  ["http://127.0.0.1:7400/", "ws://127.0.0.1:7400/graphql"],
  ["wss://example.com/party/graphql", "wss://example.com/party/graphql"],
  ["https://example.com/heartline", "wss://example.com/heartline/graphql"],
])("GraphQL of %s is at %s", (url, graphql) => {
  expect(graphqlUrlOf(url)).toBe(graphql);
});

it("what is no address is refused", () => {
  expect(() => graphqlUrlOf("ftp://example.com")).toThrow(/must begin with http/);
  expect(() => graphqlUrlOf("example")).toThrow(TypeError);
});

describe("the memory of a session", () => {
  const session = { sessionId: "wall", boardPath: "/board", seed: { queue: [], current: null } };

  it("remembers the session without its queue if that is too much", () => {
    const kept = new Map<string, string>();
    const small: PartyStorage = {
      getItem: (key) => kept.get(key) ?? null,
      setItem: (key, value) => {
        if (value.includes("seed")) {
          throw new Error("quota");
        }
        kept.set(key, value);
      },
      removeItem: (key) => void kept.delete(key),
    };
    const memory = new Memory(small);
    memory.remember(session);
    expect(memory.recall()).toEqual({ sessionId: "wall", boardPath: "/board" });
    memory.forget();
    expect(memory.recall()).toBeNull();
  });

  it("does without a storage, and with one that is forbidden or holds something else", () => {
    const forbidden = () => {
      throw new Error("forbidden");
    };
    const bad = { getItem: forbidden, setItem: forbidden, removeItem: forbidden };
    for (const storage of [null, bad, { ...bad, getItem: () => "{ nonsense" }]) {
      const memory = new Memory(storage);
      memory.remember(session);
      expect(memory.recall()).toBeNull();
      memory.forget();
    }
  });
});
