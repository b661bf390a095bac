/** A party, as three people see it. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { openView, signInAs } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { tabs } = world();

/** The names of the climbs in the queue. */
async function queue(page: Page): Promise<string[]> {
  return await page.locator(".queue .row-title").allTextContents();
}

/** The member marked as the leader. */
async function leader(page: Page): Promise<string> {
  const marked = page.locator('.roster li[data-leader="true"] .row-title');
  return (await marked.allTextContents()).join().replace(" (you)", "");
}

/** Ends the party, and says that it is meant. */
async function end(page: Page): Promise<void> {
  await page.getByRole("button", { name: "End for everybody" }).click();
  await page.getByRole("button", { name: "End party", exact: true }).click();
}

test("three people share a queue, and the lead is handed over when the leader goes", async () => {
  const lea = await tabs.signIn("lea", { hash: "#/party" });
  await lea.getByLabel("Add a climb").fill("Own invention");
  await lea.getByRole("button", { name: "Add", exact: true }).click();
  const local = ["Slow morning", "Paper moon", "Left of centre", "Own invention"];
  expect(await queue(lea)).toEqual(local);
  await lea.getByRole("button", { name: "Start a party" }).click();
  await lea.locator('.pill[data-status="live"]').waitFor();
  expect(await queue(lea)).toEqual(local);
  const link = await lea.getByLabel("Link to join this party").inputValue();
  const hash = new URL(link).hash;
  await lea.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await lea.getByRole("button", { name: "Copy link" }).click();
  await lea.getByText("Copied").waitFor();
  expect(await lea.evaluate(() => navigator.clipboard.readText())).toBe(link);

  const max = await tabs.signIn("max", { hash });
  await max.locator('.pill[data-status="live"]').waitFor();
  const nia = await tabs.signIn("nia", { hash });
  await eventually(
    () => nia.locator(".roster li").count(),
    (count) => count === 3,
  );
  await nia.locator('.pill[data-status="live"]').waitFor();
  await eventually(() => leader(nia), (name) => name === "lea");
  await eventually(() => queue(nia), (names) => names.join() === local.join());
  await nia.locator(".current-name", { hasText: "Slow morning" }).waitFor();

  await max.getByRole("button", { name: "Move Own invention up" }).click();
  await nia.getByRole("button", { name: "Remove Paper moon" }).click();
  const edited = ["Slow morning", "Own invention", "Left of centre"];
  for (const page of [lea, max, nia])
    await eventually(
      () => queue(page),
      (names) => names.join() === edited.join(),
    );
  const rows = max.locator(".queue li");
  await rows.nth(2).dragTo(rows.nth(0));
  const dragged = ["Left of centre", "Slow morning", "Own invention"];
  for (const page of [lea, max, nia])
    await eventually(
      () => queue(page),
      (names) => names.join() === dragged.join(),
    );
  await nia.getByRole("button", { name: "Climb Own invention" }).click();
  await lea.locator(".current-name", { hasText: "Own invention" }).waitFor();
  await lea.getByRole("button", { name: "Mirror" }).click();
  await max.locator('.current-name[data-mirrored="true"]').waitFor();

  await lea.getByRole("button", { name: "Leave" }).click();
  await eventually(
    () => leader(nia),
    (name) => name === "max",
  );
  await eventually(() => nia.locator(".roster li").count(), (count) => count === 2);
  await lea.getByRole("button", { name: "Start a party" }).waitFor();
  expect(await queue(lea)).toEqual(dragged);
  // A reload comes back as the same member, still leading.
  await max.reload();
  await max.locator('.pill[data-status="live"]').waitFor();
  await eventually(() => leader(max), (name) => name === "max");
  await end(max);
  await nia.getByText("The party has ended").waitFor();
  for (const page of [max, nia]) {
    await page.getByRole("button", { name: "Start a party" }).waitFor();
    expect(await queue(page)).toEqual(dragged);
  }
});

test("whoever signs out leaves the party, and the next one in the tab is not in it", async () => {
  const page = await tabs.signIn("ray", { hash: "#/party" });
  await page.getByRole("button", { name: "Start a party" }).click();
  await page.locator('.pill[data-status="live"]').waitFor();
  const hash = new URL(await page.getByLabel("Link to join this party").inputValue()).hash;
  const other = await tabs.signIn("sam", { hash });
  await eventually(
    () => other.locator(".roster li").count(),
    (count) => count === 2,
  );
  await page.getByRole("button", { name: "Sign out" }).click();
  await eventually(
    () => leader(other),
    (name) => name === "sam",
  );
  await signInAs(page, "tia");
  await openView(page, "Party");
  await page.getByRole("button", { name: "Start a party" }).waitFor();
});

test("ending a party asks first, and by the keyboard it is easily kept", async () => {
  const page = await tabs.signIn("rio", { hash: "#/party" });
  await page.getByRole("button", { name: "Start a party" }).click();
  const button = page.getByRole("button", { name: "End for everybody" });
  const isFocused = (name: string) =>
    page.locator("button:focus", { hasText: name }).waitFor({ state: "attached" });
  await button.press("Enter");
  await page.getByText("Nobody can rejoin").waitFor();
  await isFocused("Cancel");
  await page.keyboard.press("Escape");
  await isFocused("End for everybody");
  await page.keyboard.press("Enter");
  await isFocused("Cancel");
  await page.keyboard.press("Enter");
  await isFocused("End for everybody");
  expect(await page.locator('.pill[data-status="live"]').count()).toBe(1);
});

test("a mistyped link is said to have begun a new party, and takes no queue away", async () => {
  const words = "This party is new and empty. If you expected others, check that the link is complete.";
  const gil = await tabs.signIn("gil", { hash: "#/party/mistyped-by-gil" });
  await gil.getByText(words).waitFor();
  await gil.getByRole("button", { name: "Leave" }).click();
  await gil.getByRole("button", { name: "Start a party" }).waitFor();
  expect(await queue(gil)).toEqual(["Slow morning", "Paper moon", "Left of centre"]);
  await gil.getByRole("button", { name: "Start a party" }).click();
  await gil.locator('.pill[data-status="live"]').waitFor();
  const link = await gil.getByLabel("Link to join this party").inputValue();
  const hap = await tabs.signIn("hap", { hash: new URL(link).hash });
  await eventually(
    () => hap.locator(".roster li").count(),
    (count) => count === 2,
  );
  for (const page of [gil, hap]) expect(await page.getByText(words).count()).toBe(0);
});

test("a link of a party that is over says so", async () => {
  const ora = await tabs.signIn("ora", { hash: "#/party" });
  await ora.getByRole("button", { name: "Start a party" }).click();
  const link = await ora.getByLabel("Link to join this party").inputValue();
  await ora.locator('.pill[data-status="live"]').waitFor();
  await end(ora);
  await ora.getByText("The party has ended").waitFor();
  const other = await tabs.openIn(ora.context(), { hash: new URL(link).hash });
  await signInAs(other, "pia");
  await other.getByText("The party has ended").waitFor();
  await openView(other, "Chats");
});
