/** A reader that stands still in a browser that reads all the same. */
import { expect, test } from "vitest";
import { isLive } from "./harness/browser.js";
import { world } from "./harness/world.js";

const { server, tabs } = world();

/** Takes away what only some browsers have. */
function withoutStreams(): void {
  Reflect.deleteProperty(window, "WebSocketStream");
}

test("where the server cannot notice a stalled reader, the client's heartbeat does", async () => {
  const page = await tabs.signIn("yan", { hash: "#/break", before: withoutStreams });
  const [before] = await server.connections("yan");
  await page.getByRole("button", { name: "Stall it" }).click();
  await page.getByText("missing messages arrived").waitFor();
  await isLive(page);
  const [after] = await server.connections("yan");
  expect(after?.connection_id).not.toBe(before?.connection_id);
});
