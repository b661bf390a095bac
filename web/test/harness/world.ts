/** The fixtures of a test file: the server, and tabs that are closed after every test. */
import { afterEach, expect, inject } from "vitest";
import { Tabs } from "./browser.js";
import { Network } from "./network.js";
import { Server } from "./server.js";

/** Gives a file its world. */
export function world(): { server: Server; tabs: Tabs; network: () => Promise<Network> } {
  const server = new Server(inject("server_url"));
  const tabs = new Tabs(server.url, inject("browser_endpoint"));
  const networks: Network[] = [];
  const network = async () => {
    const made = await Network.to(server.url);
    networks.push(made);
    return made;
  };
  afterEach(async () => {
    await tabs.closeAll();
    await Promise.all(networks.splice(0).map((made) => made.close()));
    expect(tabs.errors.splice(0)).toEqual([]);
  });
  return { server, tabs, network };
}
