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
  const sends = lee.locator(".chart", { hasText: "Sends per second" }).locator("strong");
  const highest = lee.locator(".chart", { hasText: "Sends per second" }).getByText(/up to/);
  await eventually(
    async () => (await highest.textContent()) ?? "",
    (text) => text !== "up to 0",
  );
  expect(await sends.count()).toBe(1);
  const deliveries = lee.locator(".chart", { hasText: "Deliveries per second" });
  await eventually(
    async () => (await deliveries.getByText(/up to/).textContent()) ?? "",
    (text) => text !== "up to 0",
  );
  // The charts live: with every reading their lines reach further back.
  const points = () =>
    lee.locator(".chart .line").evaluateAll((all) => all.map((one) => one.getAttribute("d")));
  const before = await points();
  expect(before).toHaveLength(4);
  await eventually(points, (after) => after.every((line, index) => line !== before[index]));
  const titles = await lee.locator(".group h2").allTextContents();
  expect(titles).toEqual(["Slow consumers", "Leases", "Breakers", "Parties"]);
  const terms = await lee.locator(".group dt").allTextContents();
  expect(terms).toEqual([
    ...["Warned", "Closed", "Rate limited"],
    ...["Renewed", "Lost", "Swept", "Connections without lease"],
    ...["Writing", "Reading"],
    ...["Sessions", "Members"],
  ]);
  await lee.getByRole("region", { name: "Table of nodes" }).getByText(/\d+ s left/).waitFor();
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
  await page.getByText("This is not a token").waitFor();
  await page.getByLabel("Your token").fill(await server.token("mia"));
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.locator('.link[data-state="live"]').waitFor();
  expect(await page.locator(".who-name strong").textContent()).toBe("mia");
  expect(await page.getByRole("link", { name: "Break it" }).count()).toBe(0);
  const field = page.getByLabel("Service token", { exact: true });
  await field.fill(await server.token("mia"));
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByText("The server rejected this token").waitFor();
  await field.fill(await server.token("mia", "service"));
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByTestId("connection").filter({ hasText: "mia" }).waitFor();
});

test("a token that the server refuses is said to be refused, and another one helps", async () => {
  const page = await tabs.open();
  const token = await server.token("nora");
  const forged = `${token.slice(0, token.lastIndexOf("."))}.${"A".repeat(43)}`;
  await page.getByRole("button", { name: "Use a token instead" }).click();
  await page.getByLabel("Your token").fill(forged);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  const refusal = "the server rejected the token: it is expired or signed with another secret";
  await page.locator('.link[data-state="stopped"]').getByText(refusal).waitFor();
  await page.locator(".chat-list").getByText(refusal).waitFor();
  expect(await page.getByText("Loading your chats").count()).toBe(0);
  expect(await page.getByRole("button", { name: "Connect again" }).count()).toBe(0);
  await page.getByRole("button", { name: "Use another token" }).click();
  await page.getByLabel("Your token").fill(token);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.locator('.link[data-state="live"]').waitFor();
  await page.getByText("No chats yet.").waitFor();
});
