import { defineConfig } from "vitest/config";

/**
 * Tests start real servers and mostly wait, so a few files run at a time even on two cores. Files
 * of one worker share their modules, which costs less than loading them for each.
 */
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Far longer than they take: for machines that have much else to do.
    testTimeout: 240_000,
    hookTimeout: 120_000,
    maxWorkers: 4,
    isolate: false,
  },
});
