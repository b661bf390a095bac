/** A tab that nobody looks at. */
import { expect, test } from "vitest";
import { world } from "./harness/world.js";
import { contents } from "./harness/browser.js";
import { eventually } from "./harness/eventually.js";
import type { RawTab } from "./harness/raw_tab.js";

const { server, tabs } = world();

/** Longer than the server bears silence; the long form is two minutes. */
const HIDDEN_MS = process.env["HEARTLINE_LONG"] === "1" ? 125_000 : 12_000;

/** Makes timers wait while the page is hidden, as browsers do with tabs in the background. */
function slowTimers(): void {
  const waiting: (() => void)[] = [];
  const original = window.setTimeout.bind(window);
  let isHidden = false;
  Object.defineProperty(document, "visibilityState", {
    get: () => (isHidden ? "hidden" : "visible"),
  });
  window.setTimeout = ((run: () => void, delay?: number) =>
    original(() => (isHidden ? waiting.push(run) : run()), delay)) as typeof window.setTimeout;
  Object.assign(window, {
    hide(hide: boolean) {
      isHidden = hide;
      document.dispatchEvent(new Event("visibilitychange"));
      if (!hide) for (const run of waiting.splice(0)) run();
    },
  });
}

/** Hides or shows the page. */
function hide(isHidden: boolean): void {
  (window as unknown as { hide(isHidden: boolean): void }).hide(isHidden);
}

/** Hides a tab really: what was frozen and runs again is still in the background. */
async function hideReally(tab: RawTab): Promise<void> {
  await tab.freeze(true);
  await tab.freeze(false);
  await tab.until('document.visibilityState === "hidden"');
}

test(
  "a hidden tab stays connected and gets everything",
  { timeout: HIDDEN_MS + 120_000 },
  async () => {
    const chat_id = await server.chat("xia", ["wes", "wil"], "Hidden");
    const page = await tabs.signIn("wes", { hash: `#/chats/${chat_id}`, before: slowTimers });
    const tab = await tabs.openRaw("wil", `chats/${chat_id}`);
    await tab.until("document.querySelector('.link[data-state=live]') !== null");
    await hideReally(tab);
    await tab.until("document.querySelector('.link[data-state=live]') !== null");
    const connections = async () =>
      [await server.connections("wes"), await server.connections("wil")].map((open) =>
        open.map((one) => one.connection_id),
      );
    const before = await eventually(connections, (all) => all.every((open) => open.length === 1));
    await page.evaluate(hide, true);
    await new Promise((resolve) => setTimeout(resolve, HIDDEN_MS));
    await server.send("xia", chat_id, "are you there?");
    await eventually(
      () => contents(page),
      (shown) => shown.join() === "are you there?",
    );
    await tab.until('document.querySelector(".content")?.textContent === "are you there?"');
    expect(await tab.evaluate("document.visibilityState")).toBe("hidden");
    await page.evaluate(hide, false);
    expect(await connections()).toEqual(before);
  },
);
