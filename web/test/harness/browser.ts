/** A real browser, and the page in it. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Browser,
  type BrowserContext,
  type BrowserServer,
  type Page,
  chromium,
} from "playwright-core";
import { type PageFile, RawTab } from "./raw_tab.js";

const FLAGS = [
  "--headless=new",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** Whether the browser gets the files of `dist` in the place of those that the server embeds. */
const IS_FROM_DIST = process.env["HEARTLINE_PAGE"] === "dist";
// A page that came from no address may not reach this machine, unless the browser is told.
if (IS_FROM_DIST) FLAGS.push("--disable-features=LocalNetworkAccessChecks");
const DIST = join(import.meta.dirname, "../../dist");
/** The server's answers for the files of the page. */
const POLICY = "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:";
const TYPES: Record<string, string> = {
  "index.html": "text/html; charset=utf-8",
  "app.js": "text/javascript; charset=utf-8",
  "app.css": "text/css; charset=utf-8",
  "icon.svg": "image/svg+xml",
};

/** How a tab is opened. */
export interface TabOptions {
  width?: number;
  height?: number;
  colorScheme?: "light" | "dark";
  /** The view to begin with, such as `#/party`. */
  hash?: string;
  /** Where the server is found, if not directly. */
  url?: string;
  /** Whether the page is told that this server signs no tokens for it. */
  isByToken?: boolean;
  /** A script that runs before the page's own. */
  before?: () => void;
}

/** Starts a browser with an empty profile. */
export async function startBrowser(): Promise<BrowserServer> {
  const executablePath = process.env["HEARTLINE_CHROMIUM"] ?? "/usr/bin/chromium";
  return await chromium.launchServer({ executablePath, args: FLAGS });
}

/** The browser of one file of tests. */
export class Tabs {
  readonly #url: string;
  readonly #endpoint: string;
  #browser: Browser | undefined;
  readonly #contexts: BrowserContext[] = [];
  readonly #rawTabs: RawTab[] = [];
  /** The errors of all pages, which no test may ignore. */
  readonly errors: string[] = [];

  constructor(url: string, endpoint: string) {
    this.#url = url;
    this.#endpoint = endpoint;
  }

  /** Opens the page in a browser profile of its own. */
  async open(options: TabOptions = {}): Promise<Page> {
    const { width = 1280, height = 800, colorScheme = "light" } = options;
    const browser = await this.#connect();
    const context = await browser.newContext({ viewport: { width, height }, colorScheme });
    this.#contexts.push(context);
    await context.route(
      (url) => fileOf(url) !== undefined,
      (route, request) => route.fulfill(fileOf(new URL(request.url())) ?? {}),
    );
    return await this.openIn(context, options);
  }

  /** Opens the page in a profile that has a tab already. */
  async openIn(context: BrowserContext, options: TabOptions = {}): Promise<Page> {
    const { hash = "", before, isByToken = false, url = this.#url } = options;
    const page = await context.newPage();
    this.#watch(page);
    if (before !== undefined) await page.addInitScript(before);
    const node = { version: "0.1.0", node_id: "node", sign_in: "token" };
    if (isByToken) await page.route("**/page/node.json", (route) => route.fulfill({ json: node }));
    await page.goto(`${url}/${hash}`);
    return page;
  }

  #watch(page: Page): void {
    page.on("pageerror", (error) => this.errors.push(error.message));
    page.on("console", (message) => {
      const isOurs = message.type() === "error" && !message.text().includes("net::ERR_");
      // The browser also logs requests that the server rejects; the page shows them.
      if (isOurs && !/status of 4\d\d|WebSocket connection/.test(message.text())) {
        this.errors.push(message.text());
      }
    });
  }

  /** Opens the page and signs in. */
  async signIn(name: string, options: TabOptions = {}): Promise<Page> {
    const page = await this.open(options);
    await signInAs(page, name);
    return page;
  }

  /** Opens the page as somebody in a tab that can be hidden and frozen. */
  async openRaw(name: string, view: string): Promise<RawTab> {
    const url = `${this.#url}/#/as/${name}/${view}`;
    const tab = await RawTab.open(await this.#connect(), url, fileOf);
    this.#rawTabs.push(tab);
    return tab;
  }

  /** Closes what a test has opened. */
  async closeAll(): Promise<void> {
    const all = [...this.#contexts.splice(0), ...this.#rawTabs.splice(0)];
    await Promise.all(all.map((one) => one.close()));
  }

  async #connect(): Promise<Browser> {
    this.#browser ??= await chromium.connect(this.#endpoint);
    return this.#browser;
  }
}

/** Signs in, and waits for the connection. */
export async function signInAs(page: Page, name: string): Promise<void> {
  await page.getByLabel("Who are you?").fill(name);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await isLive(page);
}

/** Waits for the connection. */
export async function isLive(page: Page): Promise<void> {
  await page.locator('.link[data-state="live"]').waitFor({ timeout: 20_000 });
}

/** Opens a view by its link. */
export async function openView(page: Page, name: string): Promise<void> {
  await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name }).click();
}

/** Says something in the open chat. */
export async function say(page: Page, content: string): Promise<void> {
  const field = page.getByPlaceholder("Write a message");
  await field.fill(content);
  await field.press("Enter");
}

/** Begins a chat by the dialog. */
export async function begin(page: Page, people: string, name = ""): Promise<void> {
  await page.getByRole("button", { name: "New chat" }).click();
  await page.getByLabel("Members, separated by commas").fill(people);
  await page.getByLabel("Name of the group").fill(name);
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByPlaceholder("Write a message").waitFor();
}

/** The stored messages of the open chat, as they are shown. */
export async function contents(page: Page): Promise<string[]> {
  return await page.locator(".message[data-sequence] .content").allTextContents();
}

/** The file of `dist` that an address stands for, if the browser is to get those. */
function fileOf(url: URL): PageFile | undefined {
  const name = url.pathname === "/" ? "index.html" : url.pathname.replace("/page/", "");
  const type = TYPES[name];
  if (!IS_FROM_DIST || type === undefined) return undefined;
  const headers = { "Content-Type": type, "Content-Security-Policy": POLICY };
  return { body: readFileSync(join(DIST, name)), headers };
}
