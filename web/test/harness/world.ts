/** What a file of tests has: the server, and tabs that are closed after every test. */
import { afterEach, expect, inject } from "vitest";
import { Tabs } from "./browser.js";
import { Server } from "./server.js";

/** Gives a file its world. */
export function world(): { server: Server; tabs: Tabs } {
  const server = new Server(inject("server_url"));
  const tabs = new Tabs(server.url, inject("browser_endpoint"));
  afterEach(async () => {
    await tabs.closeAll();
    expect(tabs.errors.splice(0)).toEqual([]);
  });
  return { server, tabs };
}
