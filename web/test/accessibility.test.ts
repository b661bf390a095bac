/** Everybody can use it: narrow screens, the keyboard, the order of the focus. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { openView } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

test("on the narrowest phone nothing is wider than the screen", async () => {
  const chat_id = await server.chat(
    "bea",
    ["cal"],
    "A group with a rather long name that has to be cut",
  );
  await server.send("cal", chat_id, `a${"h".repeat(200)}`);
  const page = await tabs.signIn("bea", { width: 320, height: 640 });
  const wider: string[] = [];
  const look = async (view: string) => {
    const excess = await page.evaluate(() => {
      const inside = document.querySelector("#main");
      const own = inside === null ? 0 : inside.scrollWidth - inside.clientWidth;
      return Math.max(own, document.documentElement.scrollWidth - window.innerWidth);
    });
    if (excess > 0) wider.push(`${view} by ${excess}`);
  };
  for (const view of ["Party", "You", "Console", "Break it", "Chats"]) {
    await openView(page, view);
    if (view === "Party") await page.getByRole("button", { name: "Start a party" }).click();
    if (view === "Party") await page.locator('.pill[data-status="live"]').waitFor();
    if (view === "Console") await page.getByTestId("connection").first().waitFor();
    await look(view);
  }
  await page.getByRole("link", { name: /A group/ }).click();
  await page.locator(".message").waitFor();
  await look("conversation");
  await page.getByRole("button", { name: "Back to the chats" }).click();
  expect(wider).toEqual([]);
});

/** The focused element, as a screen reader describes it. */
async function focused(page: Page): Promise<string> {
  return await page.evaluate(() => {
    const element = document.activeElement;
    if (element === document.body) return "";
    const label =
      element?.getAttribute("aria-label") ??
      (element as HTMLInputElement | null)?.labels?.[0]?.querySelector("span")?.textContent ??
      heard(element);
    return (label ?? "").trim();

    function heard(whole: Element | null): string | null | undefined {
      const copy = whole?.cloneNode(true) as Element | undefined;
      for (const silent of copy?.querySelectorAll("[aria-hidden=true]") ?? []) silent.remove();
      return copy?.textContent;
    }
  });
}

/** Presses Tab until something has the focus. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 60; presses += 1) {
    if ((await focused(page)).startsWith(name)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`Tab never came to ${name}`);
}

/** The focused element, and the elements that each Tab reaches up to the named one. */
async function order(page: Page, last: string): Promise<string[]> {
  const names = [await focused(page)];
  while (names.at(-1) !== last && names.length < 60) {
    await page.keyboard.press("Tab");
    names.push(await focused(page));
  }
  return names;
}

test("Tab goes through the way in and through a conversation as one reads them", async () => {
  const page = await tabs.open();
  await page.getByLabel("Who are you?").waitFor();
  const colours = "Colours: as the system. Change";
  const names = ["ana", "bo", "cy"];
  const signIn = ["Who are you?", "Sign in", ...names, "Use a token instead", colours];
  expect(await order(page, colours)).toEqual(signIn);
  await page.reload();
  await server.chat("zed", ["amy"], "Focus");
  await page.getByLabel("Who are you?").fill("zed");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: /Focus/ }).click();
  await page.getByPlaceholder("Write a message").fill("something");
  // Past the end, and on from the very beginning.
  await tabTo(page, "Skip to the content");
  expect(await order(page, "Send")).toEqual([
    "Skip to the content",
    colours,
    "Sign out",
    ...["Chats", "Party", "You", "Console", "Break it"],
    "New chat",
    "Focus",
    "Members",
    "Messages",
    "Message to Focus",
    "Send",
  ]);
});

test("everything can be done by keyboard alone", async () => {
  const page = await tabs.open();
  await page.getByLabel("Who are you?").waitFor();
  await page.keyboard.type("dot");
  await page.keyboard.press("Enter");
  await page.getByText("No chats yet.").waitFor();
  await tabTo(page, "New chat");
  await page.keyboard.press("Enter");
  await page.keyboard.type("eli");
  await page.keyboard.press("Enter");
  await page.locator(".composer textarea:focus").waitFor();
  await page.keyboard.type("by keyboard");
  await page.keyboard.press("Enter");
  await page.locator(".message[data-sequence]", { hasText: "by keyboard" }).waitFor();
  await tabTo(page, "Skip to the content");
  await tabTo(page, "Party");
  await page.keyboard.press("Enter");
  await tabTo(page, "Start a party");
  await page.keyboard.press("Enter");
  await page.locator('.pill[data-status="live"]').waitFor();
  await tabTo(page, "Move Left of centre up");
  // The focus stays on what moves it, also where it cannot be moved any further.
  for (let presses = 0; presses < 3; presses += 1) await page.keyboard.press("Enter");
  const titles = page.locator(".queue .row-title");
  await eventually(
    () => titles.allTextContents(),
    (shown) => shown.join() === "Left of centre,Slow morning,Paper moon",
  );
  expect(await focused(page)).toBe("Move Left of centre up");
  await page.getByText("Left of centre is now 1 of 3").waitFor({ state: "attached" });
  await page.keyboard.press("Tab");
  expect(await focused(page)).toBe("Move Left of centre down");
  for (let presses = 0; presses < 3; presses += 1) await page.keyboard.press("Enter");
  await eventually(
    () => titles.allTextContents(),
    (shown) => shown.join() === "Slow morning,Paper moon,Left of centre",
  );
  expect(await focused(page)).toBe("Move Left of centre down");
  await tabTo(page, "Skip to the content");
  await tabTo(page, "Chats");
  await page.keyboard.press("Enter");
  await tabTo(page, "eli");
  await page.keyboard.press("Enter");
  await page.locator(".composer textarea:focus").waitFor();
  await page.keyboard.type("and again");
  await page.keyboard.press("Enter");
  await page.locator(".message[data-sequence]", { hasText: "and again" }).waitFor();
});

test("colours are those of the system, unless others are chosen", async () => {
  const page = await tabs.open({ colorScheme: "dark" });
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).background);
  const [light, dark] = ["rgb(246, 244, 243)", "rgb(20, 17, 18)"];
  const choose = (now: string) => page.getByRole("button", { name: `Colours: ${now}. Change` });
  await choose("as the system").waitFor();
  expect(await ground()).toContain(dark);
  await choose("as the system").click();
  await choose("light").waitFor();
  expect(await ground()).toContain(light);
  await page.reload();
  await choose("light").click();
  await page.emulateMedia({ colorScheme: "light" });
  expect(await ground()).toContain(dark);
  await choose("dark").click();
  expect(await ground()).toContain(light);
});
