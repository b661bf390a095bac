/** Several real tabs of one person share one outbox in the browser's own storage. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { contents, isLive, say, signInAs } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { server, tabs, network } = world();

/** The holder of the outbox lock, and the number of waiting tabs. */
async function locks(page: Page): Promise<{ held: number; waiting: number }> {
  return await page.evaluate(async () => {
    const { held = [], pending = [] } = await navigator.locks.query();
    const ours = (all: LockInfo[]) =>
      all.filter((lock) => lock.name?.startsWith("outbox:")).length;
    return { held: ours(held), waiting: ours(pending) };
  });
}

/** Waits until so many tabs of one profile wait behind the one that sends. */
async function waitBehind(page: Page, waiting: number): Promise<void> {
  await eventually(
    () => locks(page),
    (found) => found.held === 1 && found.waiting === waiting,
  );
}

/** Kills what runs the tab, as a browser that has no memory left does. */
async function crash(page: Page): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const crashed = page.waitForEvent("crash");
  session.send("Page.crash").catch(() => {});
  await crashed;
}

/** Waits until a message is shown as stored. */
async function isStored(page: Page, content: string): Promise<void> {
  await page.locator(".message[data-sequence]", { hasText: content }).waitFor();
}

test("one tab sends for all; when it is closed or crashes, the next one does", async () => {
  const chat_id = await server.chat("ida", ["jon"], "Tabs");
  const between = await network();
  const options = { hash: `#/chats/${chat_id}`, url: between.url };
  const first = await tabs.signIn("ida", options);
  const second = await tabs.openIn(first.context(), options);
  await signInAs(second, "ida");
  const third = await tabs.openIn(first.context(), options);
  await signInAs(third, "ida");
  await waitBehind(third, 2);
  await say(third, "sent by the first tab");
  await isStored(third, "sent by the first tab");
  await first.close();
  await waitBehind(third, 1);
  await say(third, "sent by the second tab");
  await isStored(second, "sent by the second tab");
  between.down();
  await third.locator('.link[data-state="reconnecting"]').waitFor();
  await say(third, "written while the server was away");
  // The other tab shows what waits in the outbox that they share.
  await second.locator('.message[data-pending="true"]', { hasText: "written while" }).waitFor();
  between.up();
  await Promise.all([isLive(second), isLive(third)]);
  await isStored(second, "written while");
  await isStored(third, "written while");
  await waitBehind(third, 1);
  await crash(second);
  await waitBehind(third, 0);
  await say(third, "sent by the last tab");
  await isStored(third, "sent by the last tab");
  const all = [
    "sent by the first tab",
    "sent by the second tab",
    "written while the server was away",
    "sent by the last tab",
  ];
  expect(await contents(third)).toEqual(all);
  expect(await server.stored("ida", chat_id)).toEqual(all);
});

test("a tab that stands still with the right to send keeps it for seconds only", async () => {
  const chat_id = await server.chat("moe", ["nia"], "Still");
  const options = { hash: `#/chats/${chat_id}` };
  const still = await tabs.open(options);
  // Some browsers run nothing of a tab in the background, and leave it its locks.
  await still.evaluate(() => {
    const forever = () => new Promise<void>(() => {});
    navigator.locks.request("outbox:heartline:moe", forever).catch(() => {});
  });
  const shown = await tabs.openIn(still.context(), options);
  await signInAs(shown, "moe");
  await waitBehind(shown, 1);
  await say(shown, "sent nevertheless");
  await isStored(shown, "sent nevertheless");
  await waitBehind(shown, 0);
});

test("a frozen tab gives its connection back, and catches up when it thaws", async () => {
  const chat_id = await server.chat("kai", ["lin"], "Frozen");
  const tab = await tabs.openRaw("kai", `chats/${chat_id}`);
  const shown = '[...document.querySelectorAll(".message[data-sequence] .content")]';
  await tab.until('document.body?.innerText.includes("No messages yet") ?? false');
  await eventually(
    () => server.connections("kai"),
    (open) => open.length === 1,
  );
  await tab.evaluate("window.events = []; 0");
  for (const name of ["freeze", "resume"])
    await tab.evaluate(`document.addEventListener("${name}", () => events.push("${name}")); 0`);
  await tab.freeze(true);
  await eventually(
    () => server.connections("kai"),
    (open) => open.length === 0,
  );
  const all = Array.from({ length: 30 }, (_, index) => `while frozen ${index + 1}`);
  for (const content of all) await server.send("lin", chat_id, content);
  await tab.freeze(false);
  await eventually(
    () => tab.evaluate(`${shown}.map((one) => one.textContent).join()`),
    (contentsShown) => contentsShown === all.join(),
  );
  expect(await tab.evaluate("events.join()")).toBe("freeze,resume");
  expect(await server.connections("kai")).toHaveLength(1);
});
