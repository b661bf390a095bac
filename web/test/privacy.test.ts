/** Visibility of presence between users. */
import { expect, test } from "vitest";
import { openView } from "./harness/browser.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

test("privacy hides a person from everybody, then shows them to contacts alone", async () => {
  const [withTom, withVic] = [await server.chat("uma", ["tom"]), await server.chat("uma", ["vic"])];
  const [tom, vic, uma] = await Promise.all([
    tabs.signIn("tom", { hash: `#/chats/${withTom}` }),
    tabs.signIn("vic", { hash: `#/chats/${withVic}` }),
    tabs.signIn("uma", { hash: "#/you" }),
  ]);
  const mark = (status: string) => `.subtitle .presence[data-status="${status}"]`;
  await tom.locator(mark("online")).waitFor();
  await uma.getByLabel("Nobody").check();
  await tom.locator(mark("unknown")).waitFor();
  await vic.locator(mark("unknown")).waitFor();
  await uma.getByLabel("Contacts only").check();
  await uma.getByLabel("Add a contact").fill("tom");
  await uma.getByRole("button", { name: "Add", exact: true }).click();
  await uma.getByRole("button", { name: "Remove tom" }).waitFor();
  await openView(tom, "You");
  await tom.getByLabel("Add a contact").fill("uma");
  await tom.getByRole("button", { name: "Add", exact: true }).click();
  await tom.locator('.people .presence[data-status="online"]').waitFor();
  expect(await vic.locator(mark("unknown")).count()).toBe(1);
  await tom.getByRole("button", { name: "Remove uma" }).click();
  await tom.getByText("No contacts yet.").waitFor();
  await openView(tom, "Chats");
  await tom.getByRole("link", { name: /uma/ }).click();
  await tom.locator(mark("unknown")).waitFor();
});
