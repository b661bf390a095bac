import { defineConfig } from "vitest/config";

/** Tests start real servers; two files at a time are enough for a machine of two cores. */
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 3,
    reporters: ["default"],
  },
});
