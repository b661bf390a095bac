import { defineConfig } from "vitest/config";

/** Tests that measure time run alone. */
const ALONE = "test/first_view.test.ts";

/** All files share a real server and a real browser, each with people of its own. */
export default defineConfig({
  test: {
    globalSetup: "test/harness/global.ts",
    reporters: ["default"],
    projects: [
      { test: { ...common("alone", 0), include: [ALONE] } },
      { test: { ...common("together", 1), include: ["test/**/*.test.ts"], exclude: [ALONE] } },
    ],
  },
});

function common(name: string, groupOrder: number) {
  const timeout = 120_000;
  return {
    name,
    pool: "threads" as const,
    isolate: false,
    testTimeout: timeout,
    hookTimeout: timeout,
    maxWorkers: 4,
    sequence: { groupOrder },
  };
}
