/** Whatever the guides and the examples point to is there. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

const REPOSITORY = join(import.meta.dirname, "../..");
const DOCUMENTS = [
  "README.md",
  "clients/typescript/README.md",
  "docs/quick-start.md",
  "docs/client.md",
  "docs/authentication.md",
  "examples/README.md",
  ...["browser", "chat", "party", "presence"].map((name) => `examples/${name}/README.md`),
];

/** How a heading is called in an address. */
function anchorOf(heading: string): string {
  return heading.toLowerCase().replace(/[^\w\- ]/g, "").replace(/ /g, "-");
}

test.each(DOCUMENTS)("every link of %s leads somewhere", (document) => {
  const text = readFileSync(join(REPOSITORY, document), "utf8");
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
  const local = targets.filter((target) => !/^https?:/.test(target));
  const broken = local.filter((target) => {
    const [path = "", anchor] = target.split("#");
    const file = path === "" ? document : join(dirname(document), path);
    if (!existsSync(join(REPOSITORY, file))) return true;
    if (anchor === undefined) return false;
    const headings = readFileSync(join(REPOSITORY, file), "utf8").matchAll(/^#+ (.+)$/gm);
    return ![...headings].some(([, heading = ""]) => anchorOf(heading) === anchor);
  });
  expect(broken).toEqual([]);
});
