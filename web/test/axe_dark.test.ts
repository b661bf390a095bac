/** Automatic accessibility checks in dark colours, at desktop and phone size. */
import { expect, test } from "vitest";
import { violations } from "./harness/axe.js";
import { walk } from "./harness/every_view.js";
import { world } from "./harness/world.js";

const { tabs } = world();

test("no view has a violation in dark colours", async () => {
  const page = await tabs.open({ colorScheme: "dark" });
  const found: string[] = [];
  await walk(page, "yara-dark", async (view) => {
    found.push(...(await violations(page, view)));
  });
  expect(found).toEqual([]);
});
