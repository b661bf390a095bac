/** One server and one browser for the whole run. */
import type { TestProject } from "vitest/node";
import { startBrowser } from "./browser.js";
import { startServer } from "./server.js";

/** The grace of an expired token is short, because tests wait for its end. */
const CONFIGURATION = `
[gateway]
token_grace = "3s"
`;

declare module "vitest" {
  interface ProvidedContext {
    server_url: string;
    browser_endpoint: string;
  }
}

/** Starts both; answers how to end them. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServer(CONFIGURATION);
  try {
    const browser = await startBrowser();
    project.provide("server_url", server.url);
    project.provide("browser_endpoint", browser.wsEndpoint());
    return async () => {
      await browser.close();
      await server.remove();
    };
  } catch (error) {
    await server.remove();
    throw error;
  }
}
