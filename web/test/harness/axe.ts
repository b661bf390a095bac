/** Automatic accessibility checks. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** The sizes that every view is looked at in: of a desk, and of a phone. */
const SIZES = [
  { width: 1280, height: 800 },
  { width: 390, height: 844 },
];

interface AxeResults {
  violations: { id: string; nodes: { target: string[]; failureSummary: string }[] }[];
}

/** The violations that a page shows in every size; the page is left at desktop width. */
export async function violations(page: Page, view: string): Promise<string[]> {
  // Evaluated and not added as a script, which the page's own policy forbids.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const found: string[] = [];
  for (const size of SIZES.toReversed()) {
    await page.setViewportSize(size);
    const all = await page.evaluate(async () => {
      const { axe } = window as unknown as { axe: { run(options: object): Promise<AxeResults> } };
      const results = await axe.run({ resultTypes: ["violations"] });
      return results.violations.flatMap(({ id, nodes }) =>
        nodes.map((node) => `${id}: ${node.target.join(" ")} ${node.failureSummary}`),
      );
    });
    found.push(...all.map((violation) => `${view} at ${size.width}: ${violation}`));
  }
  return found;
}
