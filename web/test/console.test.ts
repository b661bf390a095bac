/** The console. */
import { expect, test } from "vitest";
import { openView } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

test("the console shows connections, nodes and live figures, and ends a connection", async () => {
  const [kim, lee] = await Promise.all([
    tabs.signIn("kim"),
    tabs.signIn("lee", { hash: "#/console" }),
  ]);
  const rowOf = (user_id: string) => lee.getByTestId("connection").filter({ hasText: user_id });
  await rowOf("kim").waitFor();
  await rowOf("lee").waitFor();
  expect(await lee.locator("#nodes-title").textContent()).toContain("1");
  expect(await lee.locator('[data-breaker="closed"]').count()).toBeGreaterThanOrEqual(2);
  const chat_id = await server.chat("kim", ["lee"]);
  for (let number = 1; number <= 10; number += 1)
    await server.send("lee", chat_id, `beat ${number}`);
  const sends = lee.locator(".chart", { hasText: "Sends a second" }).locator("strong");
  const highest = lee.locator(".chart", { hasText: "Sends a second" }).getByText(/up to/);
  await eventually(
    async () => (await highest.textContent()) ?? "",
    (text) => text !== "up to 0",
  );
  expect(await sends.count()).toBe(1);
  const figures = await lee.locator(".chart strong").allTextContents();
  expect(Number(figures[0])).toBeGreaterThanOrEqual(2);
  await lee.getByRole("button", { name: /^End kim/ }).click();
  await kim.getByText("Stopped: an operator ended this connection").waitFor();
  await rowOf("kim").waitFor({ state: "detached" });
  await kim.getByRole("button", { name: "Connect again" }).click();
  await rowOf("kim").waitFor();
  await openView(lee, "Chats");
});

test("where the page signs no tokens one is pasted, and the console asks for another", async () => {
  const page = await tabs.open({ hash: "#/console", isByToken: true });
  await page.getByLabel("Your token").fill("nonsense");
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByText("This is no token").waitFor();
  await page.getByLabel("Your token").fill(await server.token("mia"));
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.locator('.link[data-state="live"]').waitFor();
  expect(await page.locator(".who-name strong").textContent()).toBe("mia");
  expect(await page.getByRole("link", { name: "Break it" }).count()).toBe(0);
  const field = page.getByLabel("Service token", { exact: true });
  await field.fill(await server.token("mia"));
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByText("The server refused this token").waitFor();
  await field.fill(await server.token("mia", "service"));
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByTestId("connection").filter({ hasText: "mia" }).waitFor();
});
