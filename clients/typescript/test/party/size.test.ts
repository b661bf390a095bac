/** What party sessions cost a page. */
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { expect, it } from "vitest";

const BYTES_MAX = 12 * 1024;

it("the party client is small, and needs nothing else", async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: [join(import.meta.dirname, "../../src/party/index.ts")],
    bundle: true,
    minify: true,
    format: "esm",
    metafile: true,
    write: false,
  });
  const bytes = gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length;
  expect(bytes).toBeGreaterThan(1000);
  expect(bytes).toBeLessThanOrEqual(BYTES_MAX);
  expect(Object.keys(metafile.inputs).filter((input) => input.includes("node_modules"))).toEqual([]);
});
