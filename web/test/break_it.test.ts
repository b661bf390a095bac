/** Faults, and what the contracts do about them. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { isLive, openView } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

/** The text of the log. */
async function log(page: Page): Promise<string> {
  return (await page.locator(".lines").textContent()) ?? "";
}

/** Waits until the log says all of this, in this order. */
async function says(page: Page, ...words: string[]): Promise<void> {
  const isThere = (text: string) => {
    let from = 0;
    return words.every((word) => (from = text.indexOf(word, from) + 1) > 0);
  };
  await eventually(() => log(page), isThere, 40_000);
}

/**
 * Signs in with the robot's chat loaded and empty, so that whatever it shows later came through the
 * client library and not with a page of history.
 */
async function prepare(user_id: string): Promise<Page> {
  const chat_id = await server.chat(user_id, ["robot"], "Break it");
  const page = await tabs.signIn(user_id, { hash: `#/chats/${chat_id}` });
  await page.getByText("No messages yet").waitFor();
  await openView(page, "Break it");
  return page;
}

/** Waits until the chat shows that many messages; answers their numbers. */
async function heard(page: Page, count: number): Promise<number[]> {
  await page.getByRole("link", { name: "Open the chat" }).click();
  const shown = page.locator(".message[data-sequence]");
  await eventually(
    () => shown.count(),
    (shownCount) => shownCount >= count,
  );
  const numbers = (all: Element[]) => all.map((one) => Number(one.getAttribute("data-sequence")));
  return await shown.evaluateAll(numbers);
}

test("a dropped socket comes back, and what was said meanwhile is there", async () => {
  const page = await prepare("quin");
  await page.getByRole("button", { name: "Drop it" }).click();
  await says(page, "dropped the connection", "close code 1006", "of back-off", "Reconnected");
  await isLive(page);
  expect(await heard(page, 1)).toEqual([1]);
});

test("a stalled reader is cut as a slow consumer, and nothing is lost", async () => {
  const page = await prepare("rex");
  await page.getByRole("button", { name: "Stall it" }).click();
  await says(
    page,
    "stopped reading",
    "closed a slow consumer",
    "Reconnected",
    "missing messages arrived",
  );
  expect(await heard(page, 3)).toEqual([1, 2, 3]);
  await openView(page, "Console");
  const slow = page.getByRole("region", { name: "Slow consumers" });
  await slow.locator("div", { hasText: "Closed" }).locator("dd", { hasText: /[1-9]/ }).waitFor();
});

test("an expired token is said, waited for, closed with 4401 and replaced", async () => {
  const page = await tabs.signIn("sue", { hash: "#/break" });
  await page.getByRole("button", { name: "Let it expire" }).click();
  await says(page, "The token has expired. For 3 s", "token_expired", "code 4401", "Reconnected");
  await isLive(page);
});

test("a token that is let expire twice, and its socket dropped, is replaced", async () => {
  const page = await prepare("sid");
  await page.getByRole("button", { name: "Let it expire" }).click();
  await says(page, "new tokens are withheld", "Reconnected");
  await page.getByRole("button", { name: "Let it expire" }).click();
  await page.getByRole("button", { name: "Drop it" }).click();
  await says(page, "dropped the connection", "tokens are available again", "Reconnected");
  await isLive(page);
  expect(await heard(page, 1)).toEqual([1]);
});

test("what was opened while no token could be had is asked for when it can", async () => {
  const chat_id = await server.chat("wyatt", ["xeno"], "Opened late");
  await server.send("xeno", chat_id, "still here");
  const page = await tabs.signIn("wyatt", { hash: "#/break" });
  await page.getByRole("button", { name: "Let it expire" }).click();
  await says(page, "The token has expired. For 3 s");
  await openView(page, "Chats");
  await page.getByRole("link", { name: /Opened late/ }).click();
  await page.locator(".messages").getByText("The renewal is withheld").waitFor();
  await page.locator(".message", { hasText: "still here" }).waitFor();
});

test("a link to a person that was opened then leads there as well", async () => {
  const page = await tabs.signIn("wade", { hash: "#/break" });
  await page.getByRole("button", { name: "Let it expire" }).click();
  await says(page, "The token has expired. For 3 s");
  await page.evaluate(() => (location.hash = "#/chats/@xeno"));
  await page.getByText("The renewal is withheld").first().waitFor();
  await page.getByRole("heading", { name: "xeno" }).waitFor();
  expect(await page.getByText("The renewal is withheld").count()).toBe(0);
});

test("a flood is refused with a time to wait, and not cut", async () => {
  const page = await tabs.signIn("ted", { hash: "#/break" });
  const before = await server.connections("ted");
  await page.getByRole("button", { name: "Flood" }).click();
  await says(page, "40 messages at once", "stored and acknowledged", "RATE_LIMITED");
  const refused = Number(/(\d+) were rejected/.exec(await log(page))?.[1]);
  expect(refused).toBeGreaterThan(0);
  expect(refused).toBeLessThan(40);
  expect(await server.connections("ted")).toEqual(
    before.map((one) => expect.objectContaining({ connection_id: one.connection_id })),
  );
});

test("a lost message is noticed and fetched", async () => {
  const page = await prepare("una");
  await page.getByRole("button", { name: "Lose one", exact: true }).click();
  await says(page, "Message 1 was dropped", "found a gap", "missing message");
  expect(await heard(page, 2)).toEqual([1, 2]);
});

test("a lost party event is noticed and replayed", async () => {
  const page = await tabs.signIn("val", { hash: "#/break" });
  await page.getByRole("link", { name: "Start a party first" }).click();
  await page.getByRole("button", { name: "Start a party" }).click();
  await page.locator('.pill[data-status="live"]').waitFor();
  await openView(page, "Break it");
  await page.getByRole("button", { name: "Lose a party event" }).click();
  await says(page, "was dropped before", "requests a replay", "missing party events arrived");
  await openView(page, "Party");
  expect(await page.locator(".queue li").count()).toBe(3);
  await page.getByText("event 3").waitFor();
});
