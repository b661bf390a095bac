/** A page without a server: it says so, comes back, and loses nothing. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { contents, isLive, say } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { server, tabs, network } = world();

/** Lets no socket be opened while the tab remembers that; requests go through. */
function gateSockets(): void {
  const Original = WebSocket;
  window.WebSocket = class extends Original {
    constructor(url: string | URL, protocols?: string | string[]) {
      // Port 1 is where nobody listens.
      super(sessionStorage.getItem("gate") === "shut" ? "ws://127.0.0.1:1/" : url, protocols);
    }
  };
}

/** The messages that are shown as being sent. */
function pending(page: Page) {
  return page.locator('.message[data-pending="true"] .content');
}

test("a tab whose network is cut says so, and nothing is lost in either direction", async () => {
  const chat_id = await server.chat("cy", ["di"], "Away");
  const between = await network();
  const cy = await tabs.signIn("cy", { hash: `#/chats/${chat_id}`, url: between.url });
  await say(cy, "before");
  await cy.getByRole("img", { name: "Stored" }).waitFor();
  const [connection] = await server.connections("cy");
  between.down();
  await cy.context().setOffline(true);
  await cy.locator('.link[data-state="reconnecting"], .link[data-state="offline"]').waitFor();
  await cy.getByText("Not connected. Your messages are kept here").waitFor();
  await eventually(
    () => server.connections("cy"),
    (open) => open.length === 0,
  );
  for (let number = 1; number <= 20; number += 1)
    await server.send("di", chat_id, `away ${number}`);
  await say(cy, "written offline");
  await cy.getByRole("img", { name: "Sending" }).waitFor();
  between.up();
  await cy.context().setOffline(false);
  await isLive(cy);
  const shown = await eventually(
    () => contents(cy),
    (all) => all.length === 22,
  );
  expect(shown.filter((content) => content.startsWith("away"))).toEqual(
    Array.from({ length: 20 }, (_, index) => `away ${index + 1}`),
  );
  expect(await server.stored("cy", chat_id)).toEqual(shown);
  expect(shown.filter((content) => content === "written offline")).toHaveLength(1);
  expect(await cy.locator(".away").count()).toBe(0);
  const [after] = await server.connections("cy");
  expect(after?.connection_id).not.toBe(connection?.connection_id);
});

test("what was written without a server outlives a reload, and is stored once", async () => {
  const chat_id = await server.chat("fay", ["gil"], "Reload");
  const between = await network();
  const options = { hash: `#/chats/${chat_id}`, url: between.url, before: gateSockets };
  const fay = await tabs.signIn("fay", options);
  await fay.getByText("No messages yet").waitFor();
  between.down();
  await fay.locator('.link[data-state="reconnecting"]').waitFor();
  await say(fay, "kept over a reload");
  await pending(fay).getByText("kept over a reload").waitFor();
  await fay.evaluate(() => sessionStorage.setItem("gate", "shut"));
  between.up();
  await fay.reload();
  // The page is new, and shows what the one before it left in the outbox.
  await pending(fay).getByText("kept over a reload").waitFor();
  expect(await server.stored("fay", chat_id)).toEqual([]);
  await fay.evaluate(() => sessionStorage.removeItem("gate"));
  await isLive(fay);
  await fay.locator(".message[data-sequence]", { hasText: "kept over a reload" }).waitFor();
  expect(await pending(fay).count()).toBe(0);
  await fay.reload();
  await isLive(fay);
  await fay.locator(".message[data-sequence]", { hasText: "kept over a reload" }).waitFor();
  expect(await server.stored("fay", chat_id)).toEqual(["kept over a reload"]);
});

test("the next attempt is counted down, and need not be waited for", async () => {
  const between = await network();
  const page = await tabs.signIn("hux", { url: between.url });
  between.down();
  // By then the pauses are longer than anybody would wait.
  await page.getByText(/Reconnecting in [4-9] s/).waitFor();
  between.up();
  await page.getByRole("button", { name: "Try now" }).click();
  await page.locator('.link[data-state="live"]').waitFor({ timeout: 3000 });
});

test("a chat that one was removed from while away is gone", async () => {
  const chat_id = await server.chat("ike", ["joy"], "Left behind");
  await server.chat("ike", ["joy"], "Still here");
  const between = await network();
  const joy = await tabs.signIn("joy", { hash: `#/chats/${chat_id}`, url: between.url });
  await joy.getByRole("heading", { name: "Left behind" }).waitFor();
  between.down();
  await joy.locator('.link[data-state="reconnecting"]').waitFor();
  await server.askAs("ike", "DELETE", `/v1/chats/${chat_id}/members/joy`);
  between.up();
  await isLive(joy);
  await joy.getByText("You are not a member of this chat.").waitFor();
  expect(await joy.locator(".row").allTextContents()).toEqual([
    expect.stringContaining("Still here"),
  ]);
});
