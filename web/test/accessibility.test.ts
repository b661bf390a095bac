/** Everybody can use it: what machines can find, narrow screens, the keyboard. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { begin, openView, say } from "./harness/browser.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What is wrong with a page, in short. */
async function violations(page: Page): Promise<string[]> {
  // Evaluated and not added as a script, which the page's own policy forbids.
  await page.evaluate(AXE);
  return await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(options: object): Promise<AxeResults> } };
    const results = await axe.run({ resultTypes: ["violations"] });
    return results.violations.flatMap(({ id, nodes }) =>
      nodes.map((node) => `${id}: ${node.target.join(" ")} ${node.failureSummary}`),
    );
  });
}

interface AxeResults {
  violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[];
}

describe.each(["light", "dark"] as const)("in %s colours", (colorScheme) => {
  test("no view has a violation", async () => {
    const found: Record<string, string[]> = {};
    const page = await tabs.open({ colorScheme });
    await page.getByLabel("Who are you?").waitFor();
    found["sign in"] = await violations(page);
    await page.getByLabel("Who are you?").fill(`yara-${colorScheme}`);
    await page.getByRole("button", { name: "Sign in", exact: true }).click();
    await page.getByText("No chats yet.").waitFor();
    found["no chats"] = await violations(page);
    await page.getByRole("button", { name: "New chat" }).click();
    found["new chat"] = await violations(page);
    await page.getByRole("button", { name: "Cancel" }).click();
    await begin(page, "zoe, abe", "Everybody");
    await say(page, "hello");
    await page.getByRole("button", { name: "Members" }).click();
    await page.getByRole("img", { name: "Stored for good" }).waitFor();
    found["conversation"] = await violations(page);
    await openView(page, "Party");
    found["own queue"] = await violations(page);
    await page.getByRole("button", { name: "Start a party" }).click();
    await page.locator('.pill[data-status="live"]').waitFor();
    found["party"] = await violations(page);
    await openView(page, "You");
    await page.getByLabel("Add a contact").fill("zoe");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByRole("button", { name: "Remove zoe" }).waitFor();
    found["you"] = await violations(page);
    await openView(page, "Console");
    await page.getByTestId("connection").first().waitFor();
    found["console"] = await violations(page);
    await openView(page, "Break it");
    await page.getByRole("button", { name: "Flood" }).click();
    await page.getByText("RATE_LIMITED: try again").waitFor();
    found["break it"] = await violations(page);
    expect(Object.entries(found).filter(([, all]) => all.length > 0)).toEqual([]);
  });
});

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

test("everything can be done by keyboard alone", async () => {
  const page = await tabs.open();
  await page.getByLabel("Who are you?").waitFor();
  await page.keyboard.type("dot");
  await page.keyboard.press("Enter");
  await page.getByText("No chats yet.").waitFor();
  await page.getByRole("button", { name: "New chat" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.type("eli");
  await page.keyboard.press("Enter");
  await page.getByPlaceholder("Write a message").waitFor();
  await page.keyboard.type("by keyboard");
  await page.keyboard.press("Enter");
  await page.locator(".message[data-sequence]", { hasText: "by keyboard" }).waitFor();
});
