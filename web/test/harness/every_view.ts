/** A walk through every view of the page. */
import type { Page } from "playwright-core";
import { begin, openView, say } from "./browser.js";

/** Leads a fresh page through every view; calls with the name of each one once it is shown. */
export async function walk(
  page: Page,
  user_id: string,
  look: (view: string) => Promise<void>,
): Promise<void> {
  await page.getByLabel("Who are you?").waitFor();
  await look("sign in");
  await page.getByRole("button", { name: "Use a token instead" }).click();
  await look("sign in by token");
  await page.getByRole("button", { name: "Use a name instead" }).click();
  await page.getByLabel("Who are you?").fill(user_id);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("link", { name: /Open a second tab/ }).waitFor();
  await look("no chats");
  await page.getByRole("button", { name: "New chat" }).click();
  await look("new chat");
  await page.getByRole("button", { name: "Cancel" }).click();
  await begin(page, "zoe, abe", "Everybody");
  await say(page, "hello");
  await page.getByRole("img", { name: "Stored" }).waitFor();
  await look("conversation");
  await page.getByRole("button", { name: "Members" }).click();
  await look("members");
  await openView(page, "Chats");
  await page.getByText("Choose a chat").waitFor({ state: "attached" });
  await look("chats");
  await openView(page, "Party");
  await look("own queue");
  await page.getByRole("button", { name: "Start a party" }).click();
  await page.locator('.pill[data-status="live"]').waitFor();
  await look("party");
  await openView(page, "You");
  await page.getByLabel("Add a contact").fill("zoe");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByRole("button", { name: "Remove zoe" }).waitFor();
  await look("you");
  await openView(page, "Console");
  await page.getByTestId("connection").first().waitFor();
  await look("console");
  await openView(page, "Break it");
  await page.getByRole("button", { name: "Flood" }).click();
  await page.getByText("RATE_LIMITED: try again").waitFor();
  await look("break it");
}
