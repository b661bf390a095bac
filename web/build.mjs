/**
 * Bundles the page into the four files that the server embeds. The same sources give the same
 * bytes; with `--check` nothing is written, and the committed files are compared with it.
 */
import { build } from "esbuild";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const HERE = import.meta.dirname;
const DIST = join(HERE, "dist");
const FILES = ["app.css", "app.js", "icon.svg", "index.html"];
/** What a phone on a slow network should have to load. */
const SCRIPT_GZIP_BYTES_MAX = 60 * 1024;

if (!existsSync(join(HERE, "node_modules/heartline/dist/index.js"))) {
  fail("the client library is not built: npm run library");
}
const isCheck = process.argv.includes("--check");
const target = isCheck ? mkdtempSync(join(tmpdir(), "heartline-page-")) : DIST;
try {
  await bundle(target);
  if (isCheck) compare(target);
} finally {
  if (isCheck) rmSync(target, { recursive: true });
}

async function bundle(directory) {
  mkdirSync(directory, { recursive: true });
  await build({
    absWorkingDir: HERE,
    entryPoints: { app: "src/main.tsx" },
    outdir: directory,
    bundle: true,
    minify: true,
    format: "esm",
    target: ["es2022"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    charset: "utf8",
    logLevel: "warning",
  });
  for (const name of ["index.html", "icon.svg"]) {
    copyFileSync(join(HERE, "src", name), join(directory, name));
  }
  const size = gzipSync(readFileSync(join(directory, "app.js")), { level: 9 }).length;
  if (size > SCRIPT_GZIP_BYTES_MAX) fail(`app.js has ${size} bytes in gzip, over its limit`);
  console.log(`app.js: ${size} bytes in gzip`);
}

function compare(directory) {
  const committed = existsSync(DIST) ? readdirSync(DIST).sort() : [];
  if (committed.join() !== FILES.join()) fail(`dist holds ${committed.join(", ") || "nothing"}`);
  for (const name of FILES) {
    const isSame = readFileSync(join(DIST, name)).equals(readFileSync(join(directory, name)));
    if (!isSame) fail(`dist/${name} is not current: npm run build`);
  }
}

function fail(reason) {
  console.error(reason);
  process.exit(1);
}
