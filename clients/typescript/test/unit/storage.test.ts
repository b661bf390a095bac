import "fake-indexeddb/auto";
import { describe, expect, test, vi } from "vitest";
import { IndexedDbStorage } from "../../src/indexed_db_storage.js";
import { MemoryStorage } from "../../src/memory_storage.js";
import type { Storage } from "../../src/storage.js";

let names = 0;
const kinds: [string, () => Storage][] = [
  ["in memory", () => new MemoryStorage()],
  ["in IndexedDB", () => new IndexedDbStorage({ user_id: "ana", name: `storage-${++names}` })],
];

const draft = (id: string) => ({ chat_id: "chat_1", client_message_id: id, content: id });
const error = { code: "CONFLICT", message: "", retryable: false } as const;

describe.each(kinds)("a storage %s", (_, make) => {
  test("keeps drafts in order until they are settled, and how they ended", async () => {
    const storage = make();
    await Promise.all(["a", "b", "c"].map((id) => storage.add(draft(id), 10)));
    const [first, second, third] = await storage.draftsAfter(0);
    expect([first, second, third].map((one) => one?.content)).toEqual(["a", "b", "c"]);
    expect(await storage.draftsAfter(second?.order ?? 0)).toEqual([third]);
    if (first !== undefined) await storage.settle(first, { error });
    expect(await storage.draftsAfter(0)).toEqual([second, third]);
    expect(await storage.outcomes(["chat_1/a", "chat_1/b"])).toEqual([["chat_1/a", { error }]]);
    // The same name again is another attempt.
    await storage.add(draft("a"), 10);
    expect(await storage.outcomes(["chat_1/a"])).toEqual([]);
  });

  test("refuses a draft twice, and more than may wait", async () => {
    const storage = make();
    await storage.add(draft("a"), 2);
    await expect(storage.add(draft("a"), 2)).rejects.toMatchObject({ code: "ALREADY_WAITING" });
    await storage.add(draft("b"), 2);
    await expect(storage.add(draft("c"), 2)).rejects.toMatchObject({ code: "OUTBOX_FULL" });
    expect((await storage.draftsAfter(0)).length).toBe(2);
  });

  test("remembers no more outcomes than it must", async () => {
    const storage = make();
    for (let number = 0; number < 210; number += 1) {
      await storage.add(draft(`${number}`), 10);
      const [waiting] = await storage.draftsAfter(0);
      if (waiting !== undefined) await storage.settle(waiting, { error });
    }
    const keys = ["chat_1/0", "chat_1/209"];
    expect((await storage.outcomes(keys)).map(([key]) => key)).toEqual(["chat_1/209"]);
  });

  test("gives the right to send to one at a time, for a while", async () => {
    const storage = make();
    expect(await storage.claim("one", 100)).toBe(true);
    expect(await storage.claim("two", 100)).toBe(false);
    expect(await storage.claim("one", 50)).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(await storage.claim("two", 10_000)).toBe(true);
    await storage.release("one");
    expect(await storage.claim("one", 100)).toBe(false);
    await storage.release("two");
    expect(await storage.claim("one", 100)).toBe(true);
  });

  test("keeps cursors that only rise, and forgets those of chats that are over", async () => {
    const storage = make();
    await storage.saveCursors([["a", 5], ["b", 2]]);
    await storage.saveCursors([["a", 3], ["b", undefined]]);
    expect(await storage.cursors()).toEqual([["a", 5]]);
  });

  test("tells of changes", async () => {
    const storage = make();
    let changes = 0;
    const remove = storage.onChange(() => (changes += 1));
    await storage.add(draft("a"), 2);
    expect(changes).toBe(1);
    remove();
    await storage.add(draft("b"), 2);
    expect(changes).toBe(1);
  });
});

test("a database that could not be opened once is opened again", async () => {
  const open = indexedDB.open.bind(indexedDB);
  const spy = vi.spyOn(indexedDB, "open").mockImplementationOnce(() => {
    throw new DOMException("not now", "UnknownError");
  });
  const storage = new IndexedDbStorage({ user_id: "ana", name: "late" });
  await expect(storage.add(draft("a"), 10)).rejects.toThrow("not now");
  spy.mockImplementation(open);
  await storage.add(draft("b"), 10);
  expect((await storage.draftsAfter(0)).map(({ content }) => content)).toEqual(["b"]);
  storage.close();
  spy.mockRestore();
});

test("a database that the browser has lost is opened again", async () => {
  const opened: IDBDatabase[] = [];
  const open = indexedDB.open.bind(indexedDB);
  const spy = vi.spyOn(indexedDB, "open").mockImplementation((name, version) => {
    const request = open(name, version);
    request.addEventListener("success", () => opened.push(request.result));
    return request;
  });
  const storage = new IndexedDbStorage({ user_id: "ana", name: "lost" });
  await storage.add(draft("a"), 10);
  opened[0]?.close();
  await expect(storage.add(draft("b"), 10)).rejects.toThrow();
  opened[0]?.onclose?.(new Event("close"));
  await storage.add(draft("c"), 10);
  expect((await storage.draftsAfter(0)).map(({ content }) => content)).toEqual(["a", "c"]);
  storage.close();
  spy.mockRestore();
});

test("a storage that is deleted is made again, and goes on behind what was there", async () => {
  const date = vi.spyOn(Date, "now").mockReturnValue(1_800_000_000_000);
  const storage = new IndexedDbStorage({ user_id: "ana", name: "deleted" });
  await storage.add(draft("a"), 10);
  const [before] = await storage.draftsAfter(0);
  await new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(storage.lock_name);
    request.onsuccess = resolve;
    request.onerror = reject;
  });
  date.mockReturnValue(1_800_000_001_000);
  await storage.add(draft("b"), 10);
  // A reader of the first draft finds the second one after it.
  const after = await storage.draftsAfter(before?.order ?? 0);
  expect(after.map(({ content }) => content)).toEqual(["b"]);
  storage.close();
  date.mockRestore();
});

test("a storage that was closed can be used again, and hears of others", async () => {
  const make = () => new IndexedDbStorage({ user_id: "ana", name: "closed" });
  const [storage, other] = [make(), make()];
  await storage.add(draft("a"), 10);
  storage.close();
  expect((await storage.draftsAfter(0)).length).toBe(1);
  const told = new Promise<void>((resolve) => void storage.onChange(resolve));
  await other.add(draft("b"), 10);
  await told;
  expect((await storage.draftsAfter(0)).length).toBe(2);
  for (const one of [storage, other]) one.close();
});
