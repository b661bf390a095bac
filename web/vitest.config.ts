import { defineConfig } from "vitest/config";

/** Tests start a real server and a real browser each; two files at a time suit two cores. */
export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    reporters: ["default"],
  },
});
