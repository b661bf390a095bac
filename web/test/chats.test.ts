/** Chats, as two people see them. */
import { expect, test } from "vitest";
import { begin, contents, openView, say, signInAs } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

test("two people chat, and see each other's presence, typing and ticks", async () => {
  const [aya, ben] = await Promise.all([tabs.signIn("aya"), tabs.signIn("ben")]);
  await begin(aya, "ben");
  await say(aya, "hello ben");
  await ben.getByRole("link", { name: /aya.*hello ben/ }).click();
  await say(ben, "hello aya");
  await eventually(
    () => contents(aya),
    (shown) => shown.join() === "hello ben,hello aya",
  );
  expect(await contents(ben)).toEqual(["hello ben", "hello aya"]);
  await aya.locator('.subtitle .presence[data-status="online"]').waitFor();
  await ben.locator('.subtitle .presence[data-status="online"]').waitFor();
  await ben.getByPlaceholder("Write a message").pressSequentially("I am", { delay: 50 });
  await aya.locator(".typing").getByText("ben is typing…").waitFor();
  await ben.getByPlaceholder("Write a message").fill("");
  await aya.locator(".typing").getByText("ben is typing…").waitFor({ state: "detached" });
  // The library acknowledges what was handed over within 5 s.
  await aya.getByRole("img", { name: "Delivered to all members" }).waitFor();
  await ben.context().close();
  await aya.locator('.subtitle .presence[data-status="offline"]').waitFor({ timeout: 25_000 });
  expect(await aya.getByTestId("peer-presence").textContent()).toMatch(/last seen/);
});

test("a message ends its sender's typing line", async () => {
  const chat_id = await server.chat("abe", ["bel"]);
  const [abe, bel] = await Promise.all([
    tabs.signIn("abe", { hash: `#/chats/${chat_id}` }),
    tabs.signIn("bel", { hash: `#/chats/${chat_id}` }),
  ]);
  await bel.getByPlaceholder("Write a message").pressSequentially("still at it");
  await abe.locator(".typing").getByText("bel is typing…").waitFor();
  // Said by other means, so that no tab of the sender says that the typing is over.
  await server.send("bel", chat_id, "said from elsewhere");
  await abe.locator(".message", { hasText: "said from elsewhere" }).waitFor();
  expect(await abe.locator(".typing").textContent()).toBe("");
});

test("unread messages are counted, and older ones come when one scrolls up", async () => {
  const chat_id = await server.chat("eve", ["flo"], "Long");
  for (let number = 1; number <= 60; number += 1)
    await server.send("flo", chat_id, `line ${number}`);
  const eve = await tabs.signIn("eve", { hash: "#/you" });
  await eve.locator(".views .badge", { hasText: "60" }).waitFor();
  await openView(eve, "Chats");
  await eve.getByRole("link", { name: /Long/ }).click();
  await eve.getByText("line 60").last().waitFor();
  expect((await contents(eve)).length).toBeLessThan(60);
  await eve.locator(".views .badge").waitFor({ state: "detached" });
  const shown = await eventually(
    async () => {
      await eve.locator(".messages").evaluate((box) => box.scrollTo(0, 0));
      return await contents(eve);
    },
    (all) => all.length === 60,
  );
  expect(shown).toEqual(Array.from({ length: 60 }, (_, index) => `line ${index + 1}`));
  // A reader further up stays there, and a button announces new messages.
  const place = () => eve.locator(".messages").evaluate((box) => Math.round(box.scrollTop));
  await eve.locator(".messages").evaluate((box) => box.scrollTo(0, 400));
  await server.send("flo", chat_id, "line 61");
  await eve.getByRole("button", { name: "New messages" }).waitFor();
  expect(await place()).toBe(400);
  await eve.getByRole("button", { name: "New messages" }).click();
  await eve.getByRole("button", { name: "New messages" }).waitFor({ state: "detached" });
  expect(await place()).toBeGreaterThan(400);
});

test("what was received but not read stays unread, however late the list comes, and after a reload", async () => {
  const chat_id = await server.chat("pim", ["qia"], "Late");
  for (const word of ["one", "two"]) await server.send("qia", chat_id, word);
  const pim = await tabs.open({ hash: "#/you" });
  let release = () => {};
  const isReleased = new Promise<void>((resolve) => (release = resolve));
  await pim.route(/\/v1\/chats\?/, async (route) => {
    await isReleased;
    await route.continue();
  });
  await signInAs(pim, "pim");
  type Received = { items: { user_id: string; last_acked_sequence?: number }[] };
  await eventually(
    () => server.ask<Received>("GET", `/v1/chats/${chat_id}/delivery`),
    ({ items }) => items.some((one) => one.user_id === "pim" && one.last_acked_sequence === 2),
  );
  release();
  const badge = pim.locator(".views .badge", { hasText: "2" });
  await badge.waitFor();
  await pim.reload();
  await badge.waitFor();
  await openView(pim, "Chats");
  await pim.getByRole("link", { name: /Late/ }).click();
  await pim.locator(".views .badge").waitFor({ state: "detached" });
});

test("what is half written is still there after a look at another chat", async () => {
  const [one, other] = [
    await server.chat("fia", ["gwen"], "One"),
    await server.chat("fia", ["gwen"], "Other"),
  ];
  const fia = await tabs.signIn("fia", { hash: `#/chats/${one}` });
  await fia.getByPlaceholder("Write a message").fill("half a sen");
  await fia.getByRole("link", { name: /Other/ }).click();
  await fia.getByRole("heading", { name: "Other" }).waitFor();
  expect(await fia.getByPlaceholder("Write a message").inputValue()).toBe("");
  await server.send("gwen", other, "are you there?");
  await fia.getByText("are you there?").last().waitFor();
  await fia.getByRole("link", { name: /One/ }).click();
  await fia.getByRole("heading", { name: "One" }).waitFor();
  expect(await fia.getByPlaceholder("Write a message").inputValue()).toBe("half a sen");
  expect(await fia.title()).toMatch(/^fia · Chats/);
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
  await ivy.getByLabel("Add a member").fill("lou");
  await ivy.getByRole("button", { name: "Add", exact: true }).click();
  await ivy.getByText("4 members").waitFor();
});

test("an owner removes somebody, makes another one owner, and then may leave", async () => {
  const chat_id = await server.chat("xoe", ["zev", "wyn"], "Handed over");
  const [xoe, zev] = await Promise.all([
    tabs.signIn("xoe", { hash: `#/chats/${chat_id}` }),
    tabs.signIn("zev", { hash: `#/chats/${chat_id}` }),
  ]);
  for (const page of [xoe, zev]) await page.getByRole("button", { name: "Members" }).click();
  expect(await zev.getByRole("button", { name: /^(Remove|Make) / }).count()).toBe(0);
  await xoe.getByRole("button", { name: "Leave this chat" }).click();
  await xoe.getByText("make another member owner first").waitFor();
  await xoe.getByRole("button", { name: "Remove wyn" }).click();
  for (const page of [xoe, zev]) await page.getByText("2 members").waitFor();
  await xoe.locator("h3:focus").waitFor();
  await xoe.getByRole("button", { name: "Make owner: zev" }).click();
  await xoe.locator(".members li", { hasText: "xoe" }).getByText("admin").waitFor();
  await zev.getByRole("button", { name: "Make owner: xoe" }).waitFor();
  // An admin removes plain members only.
  expect(await xoe.getByRole("button", { name: /^(Remove|Make) / }).count()).toBe(0);
  await xoe.getByRole("button", { name: "Leave this chat" }).click();
  await xoe.getByText("No chats yet.").waitFor();
  await zev.getByText("1 member, ").waitFor();
});
