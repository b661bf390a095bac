/** A persistent storage, shared by the tabs of a user. */
import { type Draft, type StoredDraft, keyOf } from "./draft.js";
import { Listeners, type Unsubscribe } from "./listeners.js";
import { alreadyWaiting, outboxFull } from "./memory_storage.js";
import type { ChatId } from "./protocol.gen.js";
import { OUTCOMES_MAX, type Outcome, type Storage } from "./storage.js";

const STORES = ["drafts", "outcomes", "cursors", "lease"] as const;
type StoreName = (typeof STORES)[number];

/** A draft as it is stored; its key prevents duplicates. */
type DraftRecord = StoredDraft & { key: string };

interface OutcomeRecord {
  key: string;
  outcome: Outcome;
}

/** Options of an IndexedDB storage. */
export interface IndexedDbOptions {
  /** The user who owns the outbox: users of one browser must not send each other's messages. */
  user_id: string;
  /** Distinguishes applications on one origin. */
  name?: string;
}

/** Stores everything in an IndexedDB database per user. */
export class IndexedDbStorage implements Storage {
  readonly user_id: string;
  /** Also the name of the database. */
  readonly lock_name: string;
  readonly hearsOthers = typeof BroadcastChannel === "function";
  /**
   * Undefined before the first use, and after the database was closed, lost or could not be opened.
   */
  #database: Promise<IDBDatabase> | undefined;
  /** Open while the database may be used. */
  #channel: BroadcastChannel | undefined;
  readonly #changed = new Listeners<[]>();

  constructor(options: IndexedDbOptions) {
    this.user_id = options.user_id;
    this.lock_name = `${options.name ?? "heartline"}:${options.user_id}`;
  }

  async add(draft: Draft, draftsMax: number): Promise<void> {
    const key = keyOf(draft);
    await this.#change(["drafts", "outcomes"], async (store) => {
      const drafts = store("drafts");
      const count = await result(drafts.count());
      const same = await result(drafts.index("key").count(key));
      if (same > 0) throw alreadyWaiting();
      if (count >= draftsMax) throw outboxFull(draftsMax);
      await result(drafts.add({ ...draft, key }));
      // Forget the outcome of an earlier attempt with the same id.
      const earlier = await result(store("outcomes").index("key").getKey(key));
      if (earlier !== undefined) store("outcomes").delete(earlier);
    });
    this.#tell();
  }

  async draftsAfter(order: number): Promise<StoredDraft[]> {
    return await this.#change(["drafts"], async (store) => {
      const above = IDBKeyRange.lowerBound(order, true);
      const records = (await result(store("drafts").getAll(above))) as DraftRecord[];
      return records.map(({ key: _, ...draft }) => draft);
    });
  }

  async settle(draft: StoredDraft, outcome: Outcome): Promise<void> {
    await this.#change(["drafts", "outcomes"], async (store) => {
      store("drafts").delete(draft.order);
      const outcomes = store("outcomes");
      outcomes.put({ key: keyOf(draft), outcome });
      const count = await result(outcomes.count());
      if (count <= OUTCOMES_MAX) return;
      const [oldest] = await result(outcomes.getAllKeys(undefined, 1));
      if (oldest !== undefined) outcomes.delete(oldest);
    });
    this.#tell();
  }

  async outcomes(keys: string[]): Promise<[string, Outcome][]> {
    return await this.#change(["outcomes"], async (store) => {
      const records = (await result(store("outcomes").getAll())) as OutcomeRecord[];
      const asked = records.filter((record) => keys.includes(record.key));
      return asked.map(({ key, outcome }) => [key, outcome]);
    });
  }

  async claim(owner: string, milliseconds: number): Promise<boolean> {
    return await this.#change(["lease"], async (store) => {
      const lease: unknown = await result(store("lease").get("outbox"));
      const held = lease as { owner: string; until: number } | undefined;
      const now = Date.now();
      if (held !== undefined && held.owner !== owner && held.until > now) return false;
      store("lease").put({ owner, until: now + milliseconds }, "outbox");
      return true;
    });
  }

  async release(owner: string): Promise<void> {
    await this.#change(["lease"], async (store) => {
      const lease: unknown = await result(store("lease").get("outbox"));
      const held = lease as { owner: string } | undefined;
      if (held?.owner === owner) store("lease").delete("outbox");
    });
  }

  async cursors(): Promise<[ChatId, number][]> {
    return await this.#change(["cursors"], async (store) => {
      const keys = (await result(store("cursors").getAllKeys())) as ChatId[];
      const values = (await result(store("cursors").getAll())) as number[];
      return keys.map((key, index) => [key, values[index] ?? 0]);
    });
  }

  async saveCursors(cursors: [ChatId, number | undefined][]): Promise<void> {
    await this.#change(["cursors"], async (store) => {
      for (const [chat_id, sequence] of cursors) {
        if (sequence === undefined) store("cursors").delete(chat_id);
        else {
          const known = ((await result(store("cursors").get(chat_id))) as number | undefined) ?? 0;
          if (sequence > known) store("cursors").put(sequence, chat_id);
        }
      }
    });
  }

  onChange(listener: () => void): Unsubscribe {
    return this.#changed.add(listener);
  }

  close(): void {
    this.#channel?.close();
    this.#database?.then(
      (database) => database.close(),
      () => {},
    );
    this.#channel = this.#database = undefined;
  }

  #open(): Promise<IDBDatabase> {
    if (this.hearsOthers && this.#channel === undefined) {
      this.#channel = new BroadcastChannel(this.lock_name);
      this.#channel.onmessage = () => void this.#changed.tell();
      // In Node an open channel would keep the process running.
      (this.#channel as { unref?: () => void }).unref?.();
    }
    const lost = () => (this.#database = undefined);
    const database = open(this.lock_name, lost);
    // The caller receives the failure; the next call opens the database again.
    database.catch(lost);
    return database;
  }

  /** Notifies the other clients of this page and the other tabs. */
  #tell(): void {
    this.#changed.tell();
    this.#channel?.postMessage(null);
  }

  /**
   * Runs work in one transaction. Write transactions wait for each other, so they run in the order
   * in which they were started, in all tabs.
   */
  async #change<T>(
    names: StoreName[],
    work: (store: (name: StoreName) => IDBObjectStore) => Promise<T>,
  ): Promise<T> {
    const database = await (this.#database ??= this.#open());
    const transaction = database.transaction(names, "readwrite");
    const completed = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error ?? new Error("aborted"));
    });
    // If the work fails, reject with its own error.
    completed.catch(() => {});
    let answer: T;
    try {
      answer = await work((name) => transaction.objectStore(name));
    } catch (error) {
      transaction.abort();
      throw error;
    }
    await completed;
    return answer;
  }
}

/** Opens a database, and reports its loss: some browsers close the databases of a frozen page. */
function open(name: string, lost: () => void): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => {
      const database = request.result;
      const ordered = { keyPath: "order", autoIncrement: true };
      const drafts = database.createObjectStore("drafts", ordered);
      drafts.createIndex("key", "key", { unique: true });
      // Keys keep rising even if the browser clears the storage of an open page.
      drafts.put({ order: Date.now() });
      drafts.clear();
      const outcomes = database.createObjectStore("outcomes", { autoIncrement: true });
      outcomes.createIndex("key", "key");
      database.createObjectStore("cursors");
      database.createObjectStore("lease");
    };
    request.onsuccess = () => {
      const database = request.result;
      database.onclose = lost;
      // A later version of the library in another tab may upgrade the database, or the user may
      // delete it.
      database.onversionchange = () => {
        database.close();
        lost();
      };
      resolve(database);
    };
    request.onerror = () => reject(request.error);
  });
}

function result<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
