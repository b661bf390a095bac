/** Chats, as two people see them. */
import { expect, test } from "vitest";
import { begin, contents, isLive, openView, say, signInAs } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

test("two people chat, and see each other's presence, typing and ticks", async () => {
  const [ana, bo] = await Promise.all([tabs.signIn("ana"), tabs.signIn("bo")]);
  await begin(ana, "bo");
  await say(ana, "hello bo");
  await bo.getByRole("link", { name: /ana.*hello bo/ }).click();
  await say(bo, "hello ana");
  await eventually(
    () => contents(ana),
    (shown) => shown.join() === "hello bo,hello ana",
  );
  expect(await contents(bo)).toEqual(["hello bo", "hello ana"]);
  await ana.locator('.subtitle .presence[data-status="online"]').waitFor();
  await bo.locator('.subtitle .presence[data-status="online"]').waitFor();
  await bo.getByPlaceholder("Write a message").pressSequentially("I am", { delay: 50 });
  await ana.getByText("bo is typing…").first().waitFor();
  await bo.getByPlaceholder("Write a message").fill("");
  await ana.locator(".typing").getByText("bo is typing…").waitFor({ state: "detached" });
  // The library acknowledges what was handed over within 5 s.
  await ana.getByRole("img", { name: "Delivered to everybody" }).waitFor();
  await bo.context().close();
  await ana.locator('.subtitle .presence[data-status="offline"]').waitFor({ timeout: 25_000 });
  expect(await ana.getByTestId("peer-presence").textContent()).toMatch(/last seen/);
});

test("a tab that was offline loses nothing, and what it wrote meanwhile arrives", async () => {
  const chat_id = await server.chat("cy", ["di"], "Away");
  const cy = await tabs.signIn("cy", { hash: `#/chats/${chat_id}` });
  await say(cy, "before");
  await cy.getByRole("img", { name: "Stored for good" }).waitFor();
  await cy.context().setOffline(true);
  for (let number = 1; number <= 20; number += 1)
    await server.send("di", chat_id, `away ${number}`);
  await say(cy, "written offline");
  await cy.context().setOffline(false);
  await isLive(cy);
  const shown = await eventually(
    () => contents(cy),
    (all) => all.length === 22,
    30_000,
  );
  const theirs = shown.filter((content) => content.startsWith("away"));
  expect(theirs).toEqual(Array.from({ length: 20 }, (_, index) => `away ${index + 1}`));
  expect(shown).toContain("written offline");
  expect(new Set(shown).size).toBe(22);
});

test("unread messages are counted, and older ones come when one scrolls up", async () => {
  const chat_id = await server.chat("eve", ["flo"], "Long");
  for (let number = 1; number <= 95; number += 1)
    await server.send("flo", chat_id, `line ${number}`);
  const eve = await tabs.signIn("eve", { hash: "#/you" });
  await eve.locator(".views .badge", { hasText: "95" }).waitFor();
  await openView(eve, "Chats");
  await eve.getByRole("link", { name: /Long/ }).click();
  await eve.getByText("line 95").last().waitFor();
  expect((await contents(eve)).length).toBeLessThan(95);
  await eve.locator(".views .badge").waitFor({ state: "detached" });
  const shown = await eventually(
    async () => {
      await eve.locator(".messages").evaluate((box) => box.scrollTo(0, 0));
      return await contents(eve);
    },
    (all) => all.length === 95,
  );
  expect(shown).toEqual(Array.from({ length: 95 }, (_, index) => `line ${index + 1}`));
});

test("two tabs of one person are two devices, and both get everything", async () => {
  const one = await tabs.signIn("gus");
  const other = await tabs.openIn(one.context());
  await signInAs(other, "gus");
  await begin(one, "hal");
  await say(one, "from the first");
  await other.getByRole("link", { name: /hal/ }).click();
  await eventually(
    () => contents(other),
    (shown) => shown.join() === "from the first",
  );
  await say(other, "from the second");
  await eventually(
    () => contents(one),
    (shown) => shown.length === 2,
  );
  await openView(one, "You");
  await eventually(
    () => one.getByTestId("device").count(),
    (count) => count === 2,
  );
  expect(await one.getByTestId("device").filter({ hasText: "(this tab)" }).count()).toBe(1);
  const devices = (await server.connections("gus")).map((connection) => connection.device_id);
  expect(new Set(devices).size).toBe(2);
});

test("a message that is too long cannot be sent, and a group takes more members", async () => {
  const ivy = await tabs.signIn("ivy");
  await begin(ivy, "jan, kit", "Three");
  await ivy.getByPlaceholder("Write a message").fill("x".repeat(4097));
  await ivy.getByText("1 bytes too long").waitFor();
  expect(await ivy.getByRole("button", { name: "Send" }).isDisabled()).toBe(true);
  await ivy.getByRole("button", { name: "Members" }).click();
  await ivy.getByLabel("Add somebody").fill("lou");
  await ivy.getByRole("button", { name: "Add", exact: true }).click();
  await ivy.getByText("4 members").waitFor();
});
