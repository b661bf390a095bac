/** The first minute of somebody who has just started a server. */
import { expect, test } from "vitest";
import { contents, isLive, say, signInAs } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

test("from the way in to two tabs that chat it takes two clicks", async () => {
  const page = await tabs.open();
  await page.getByLabel("Who are you?").fill("ned");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  const opened = page.context().waitForEvent("page");
  await page.getByRole("link", { name: "Open a second tab as bo" }).click();
  const other = await opened;
  await isLive(other);
  expect(await other.locator(".who-name strong").textContent()).toBe("bo");
  expect(await other.title()).toMatch(/^bo · Chats/);
  await say(page, "hello bo");
  await say(other, "hello ned");
  for (const tab of [page, other])
    await eventually(
      () => contents(tab),
      (shown) => [...shown].sort().join() === "hello bo,hello ned",
    );
  // A reload stays who it is, in the chat that it shows.
  await other.reload();
  await isLive(other);
  await eventually(
    () => contents(other),
    (shown) => shown.length === 2,
  );
});

test("a link to a person opens the chat with them; who is away is one click away", async () => {
  const page = await tabs.signIn("oto", { hash: "#/chats/@pam" });
  await page.getByRole("heading", { name: "pam" }).waitFor();
  const opened = page.context().waitForEvent("page");
  await page.getByRole("link", { name: "Answer as pam" }).click();
  const other = await opened;
  await other.getByRole("heading", { name: "oto" }).waitFor();
  await page.locator('.subtitle .presence[data-status="online"]').waitFor();
  await page.getByRole("link", { name: "Answer as pam" }).waitFor({ state: "detached" });
  await other.goto(`${new URL(page.url()).origin}/#/chats/@pam`);
  await other.locator(".conversation .error").waitFor();
});

test("a party is joined as somebody else by one click, and its link says what it is", async () => {
  const page = await tabs.signIn("rob", { hash: "#/party" });
  await page.getByRole("button", { name: "Start a party" }).click();
  const opened = page.context().waitForEvent("page");
  await page.getByRole("link", { name: "Join as bo" }).click();
  const other = await opened;
  await eventually(
    () => other.locator(".roster li").count(),
    (count) => count === 2,
  );
  const link = await page.getByLabel("Link to join this party").inputValue();
  const invited = await tabs.open({ hash: new URL(link).hash });
  await invited.getByText("You are invited to a party").waitFor();
});

test("where the page signs no tokens a link signs nobody in", async () => {
  const page = await tabs.open({ hash: "#/as/eve/chats/%", isByToken: true });
  await page.getByLabel("Your token").waitFor();
  expect(await server.connections("eve")).toEqual([]);
});

test("what is not a valid name is refused in the page's words, wherever one is given", async () => {
  const page = await tabs.open({ hash: "#/as/ana%20maria/chats" });
  await page.getByText("“ana maria” is not a valid name").waitFor();
  expect(await page.locator(".link").count()).toBe(0);
  expect(await page.getByLabel("Who are you?").inputValue()).toBe("ana maria");
  await page.getByLabel("Who are you?").fill("josé");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByText("“josé” is not a valid name").waitFor();
  await signInAs(page, "ugo");
  await page.getByRole("button", { name: "New chat" }).click();
  const people = page.getByLabel("Members, separated by commas");
  await people.fill("cy, Bo Smith");
  await people.press("Enter");
  await page.locator("dialog .error", { hasText: "“Bo Smith” is not a valid name" }).waitFor();
  await people.fill("cy,di , eva");
  await people.press("Enter");
  await page.getByText("4 members").waitFor();
  await page.getByRole("button", { name: "Members" }).click();
  await page.getByLabel("Add a member").fill("Bo Smith");
  await page.getByLabel("Add a member").press("Enter");
  await page.locator(".members .error", { hasText: "“Bo Smith” is not a valid name" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  expect(await page.getByLabel("Who are you?").inputValue()).toBe("");
});
