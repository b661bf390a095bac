import { defineConfig } from "vitest/config";

/** Tests start real servers and programs and mostly wait, so a few files run at a time. */
export default defineConfig({
  test: {
    include: ["test/*.test.ts"],
    // Far longer than they take: for machines that have much else to do.
    testTimeout: 240_000,
    hookTimeout: 120_000,
    maxWorkers: 4,
    isolate: false,
  },
});
