/** The page of the browser example, as somebody uses it. */
import type { Page } from "playwright-core";
import { eventually } from "../../../clients/typescript/test/harness/eventually.js";

/** One person's page. */
export class ChatPage {
  constructor(readonly page: Page) {}

  /** Waits until the page says so of its connection. */
  async is(state: string): Promise<void> {
    await this.page.locator("#state", { hasText: new RegExp(`^${state}$`) }).waitFor();
  }

  /** Writes a message. */
  async says(content: string): Promise<void> {
    await this.page.getByPlaceholder("Write a message").fill(content);
    await this.page.getByRole("button", { name: "Send" }).click();
  }

  /** The lines of a list of the page. */
  async lines(list: "messages" | "waiting"): Promise<string[]> {
    return await this.page.locator(`#${list} li`).allTextContents();
  }

  /** Waits until the browser keeps so many messages that are not sent: a reload may come then. */
  async keeps(count: number): Promise<void> {
    await eventually(`the browser keeps ${count} messages`, async () => {
      return (await this.page.evaluate(draftCount)) === count;
    });
  }

  /** Waits until so many messages are there; answers them. */
  async shows(count: number): Promise<string[]> {
    let lines: string[] = [];
    try {
      return await eventually(`the page shows ${count} messages`, async () => {
        lines = await this.lines("messages");
        return lines.length >= count && lines;
      });
    } catch (error) {
      const shown = JSON.stringify({ lines, waiting: await this.lines("waiting") });
      const state = await this.page.locator("#state").textContent();
      throw new Error(`${String(error)}\nIt is ${state} and shows ${shown}`);
    }
  }
}

/** Runs in the page: how many messages wait in the outbox of its user. */
async function draftCount(): Promise<number> {
  const me = new URLSearchParams(location.search).get("me");
  const database = await new Promise<IDBDatabase>((resolve, reject) => {
    const opening = indexedDB.open(`heartline:${me}`);
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
  return await new Promise((resolve, reject) => {
    const counting = database.transaction("drafts").objectStore("drafts").count();
    counting.onsuccess = () => resolve(counting.result);
    counting.onerror = () => reject(counting.error);
    database.close();
  });
}
