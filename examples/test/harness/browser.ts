/** A real browser with the pages of several people. */
import {
  type Browser as Chromium,
  type BrowserContext,
  type Page,
  chromium,
} from "playwright-core";
import { PATIENCE_MS } from "../../../clients/typescript/test/harness/process.js";

const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"];

/** A browser in which addresses of the documents lead to where tests have their servers. */
export class Browser {
  readonly #browser: Chromium;
  /** The errors of all pages, which no test may ignore. */
  readonly errors: string[] = [];

  private constructor(browser: Chromium) {
    this.#browser = browser;
  }

  /** Starts one. `ports` says which port is where: pages say the first, and reach the second. */
  static async start(ports: Record<number, number>): Promise<Browser> {
    const rules = Object.entries(ports).map(
      ([said, real]) => `MAP 127.0.0.1:${said} 127.0.0.1:${real}`,
    );
    const browser = await chromium.launch({
      executablePath: process.env["HEARTLINE_CHROMIUM"] ?? "/usr/bin/chromium",
      timeout: PATIENCE_MS,
      args: [...FLAGS, `--host-resolver-rules=${rules.join(",")}`],
    });
    return new Browser(browser);
  }

  /** Opens a page in a profile of its own. */
  async open(url: string): Promise<Page> {
    const context: BrowserContext = await this.#browser.newContext();
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    page.on("pageerror", (error) => this.errors.push(error.message));
    await page.goto(url);
    return page;
  }

  /** Ends it. */
  async close(): Promise<void> {
    await this.#browser.close();
  }
}
