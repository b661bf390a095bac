import { defineConfig } from "vitest/config";

/** All files share a real server and a real browser, each with people of its own. */
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/harness/global.ts",
    isolate: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    maxWorkers: 3,
    reporters: ["default"],
  },
});
