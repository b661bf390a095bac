/**
 * A tab that the test library does not know of. Those it knows are kept visible for ever, and a
 * visible tab can be neither hidden nor frozen.
 */
import type { Browser, CDPSession } from "playwright-core";
import { eventually } from "./eventually.js";

/** The answer for a file of the page. */
export interface PageFile {
  body: Buffer;
  headers: Record<string, string>;
}

interface Answer {
  id?: number;
  method?: string;
  params?: { requestId: string; request: { url: string } };
  result?: { result?: { value?: unknown }; exceptionDetails?: unknown };
  error?: { message: string };
}

/** The tab, spoken to in the browser's own protocol. */
export class RawTab {
  readonly #root: CDPSession;
  readonly #context: string;
  readonly #session: string;
  readonly #waiting = new Map<number, (answer: Answer) => void>();
  #count = 0;

  private constructor(
    root: CDPSession,
    context: string,
    session: string,
    fileOf: (url: URL) => PageFile | undefined,
  ) {
    this.#root = root;
    this.#context = context;
    this.#session = session;
    root.on("Target.receivedMessageFromTarget", ({ sessionId, message }) => {
      if (sessionId !== session) return;
      const answer = JSON.parse(message) as Answer;
      if (answer.id !== undefined) this.#waiting.get(answer.id)?.(answer);
      else if (answer.method === "Fetch.requestPaused") void this.#serve(answer, fileOf);
    });
  }

  /** Opens an address in a profile of its own; files that are given take the server's place. */
  static async open(
    browser: Browser,
    url: string,
    fileOf: (url: URL) => PageFile | undefined,
  ): Promise<RawTab> {
    const root = await browser.newBrowserCDPSession();
    const { browserContextId } = await root.send("Target.createBrowserContext");
    const blank = { url: "about:blank", browserContextId };
    const { targetId } = await root.send("Target.createTarget", blank);
    const { sessionId } = await root.send("Target.attachToTarget", { targetId });
    const tab = new RawTab(root, browserContextId, sessionId, fileOf);
    await tab.send("Fetch.enable", { patterns: [{ urlPattern: `${new URL(url).origin}/*` }] });
    await tab.send("Page.navigate", { url });
    return tab;
  }

  /** Asks the browser for something; what it refuses is an error. */
  async send(method: string, params: object = {}): Promise<Answer> {
    this.#count += 1;
    const id = this.#count;
    const answered = new Promise<Answer>((resolve) => this.#waiting.set(id, resolve));
    const message = JSON.stringify({ id, method, params });
    await this.#root.send("Target.sendMessageToTarget", { sessionId: this.#session, message });
    const answer = await answered;
    this.#waiting.delete(id);
    if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`);
    return answer;
  }

  /** The value of an expression in the page; undefined if it has none, or none yet. */
  async evaluate(expression: string): Promise<unknown> {
    const { result } = await this.send("Runtime.evaluate", { expression, returnByValue: true });
    return result?.result?.value;
  }

  /** Waits until an expression is true in the page. */
  async until(expression: string): Promise<void> {
    await eventually(
      () => this.evaluate(expression),
      (value) => value === true,
    );
  }

  /** Freezes the tab, as browsers do with those in the background, or lets it run again. */
  async freeze(isFrozen: boolean): Promise<void> {
    await this.send("Page.setWebLifecycleState", { state: isFrozen ? "frozen" : "active" });
  }

  async close(): Promise<void> {
    await this.#root.send("Target.disposeBrowserContext", { browserContextId: this.#context });
    await this.#root.detach();
  }

  async #serve(paused: Answer, fileOf: (url: URL) => PageFile | undefined): Promise<void> {
    const { requestId, request } = paused.params ?? { requestId: "", request: { url: "" } };
    const file = fileOf(new URL(request.url));
    const answered =
      file === undefined
        ? this.send("Fetch.continueRequest", { requestId })
        : this.send("Fetch.fulfillRequest", {
            requestId,
            responseCode: 200,
            responseHeaders: Object.entries(file.headers).map(([name, value]) => ({ name, value })),
            body: file.body.toString("base64"),
          });
    // A request whose tab is closed meanwhile needs no answer.
    await answered.catch(() => {});
  }
}
