/** Faults, and what the contracts do about them. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { isLive, openView } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

/** What the log says. */
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

/** What the robot said, as the chat shows it. */
async function heard(page: Page): Promise<number[]> {
  await openView(page, "Chats");
  await page
    .getByRole("link", { name: /Break it/ })
    .last()
    .click();
  await page.locator(".message[data-sequence]").first().waitFor();
  const numbers = await page
    .locator(".message[data-sequence]")
    .evaluateAll((all) => all.map((one) => Number(one.getAttribute("data-sequence"))));
  await openView(page, "Break it");
  return numbers;
}

test("a dropped socket comes back, and what was said meanwhile is there", async () => {
  const page = await tabs.signIn("quin", { hash: "#/break" });
  await page.getByRole("button", { name: "Drop it" }).click();
  await says(page, "cut the connection", "close code 1006", "of back-off", "Connected again");
  await isLive(page);
  expect(await heard(page)).toEqual([1]);
});

test("a stalled reader is noticed by the heartbeat, and nothing is lost", async () => {
  const page = await tabs.signIn("rex", { hash: "#/break" });
  await page.getByRole("button", { name: "Stall it" }).click();
  await says(page, "stopped reading", "of back-off", "Connected again", "missing messages came");
  expect(await heard(page)).toEqual([1, 2, 3]);
});

test("an expired token is said, waited for, closed with 4401 and replaced", async () => {
  const page = await tabs.signIn("sue", { hash: "#/break" });
  await page.getByRole("button", { name: "Let it expire" }).click();
  await says(page, "The token has ended. For 3 s", "token_expired", "code 4401", "Connected again");
  await isLive(page);
});

test("a flood is refused with a time to wait, and not cut", async () => {
  const page = await tabs.signIn("ted", { hash: "#/break" });
  const before = await server.connections("ted");
  await page.getByRole("button", { name: "Flood" }).click();
  await says(page, "40 messages at once", "stored and acknowledged", "RATE_LIMITED");
  const refused = Number(/(\d+) were refused/.exec(await log(page))?.[1]);
  expect(refused).toBeGreaterThan(0);
  expect(refused).toBeLessThan(40);
  expect(await server.connections("ted")).toEqual(
    before.map((one) => expect.objectContaining({ connection_id: one.connection_id })),
  );
});

test("a lost message is noticed and fetched", async () => {
  const page = await tabs.signIn("una", { hash: "#/break" });
  await page.getByRole("button", { name: "Lose one", exact: true }).click();
  await says(page, "Message 1 came and was lost", "noticed a gap", "missing message");
  expect(await heard(page)).toEqual([1, 2]);
});

test("a lost party event is noticed and replayed", async () => {
  const page = await tabs.signIn("val", { hash: "#/party" });
  await page.getByRole("button", { name: "Start a party" }).click();
  await page.locator('.pill[data-status="live"]').waitFor();
  await openView(page, "Break it");
  await page.getByRole("button", { name: "Lose one of the party" }).click();
  await says(page, "was lost before", "asks for a replay", "missing party events came");
  await openView(page, "Party");
  expect(await page.locator(".queue li").count()).toBe(3);
  await page.getByText("event 3").waitFor();
});
