import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Presence } from "../../src/presence.js";
import { DEFAULT_LIMITS, type ServerFrame } from "../../src/protocol.gen.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const said = (user_id: string, status: string, version: number) =>
  ({ type: "presence_changed", user_id, status, version }) as ServerFrame;

test("what the next connection does not say again is not known after a while", () => {
  const presence = new Presence(() => {});
  presence.established(DEFAULT_LIMITS);
  for (const user_id of ["bo", "cy"]) presence.onFrame(said(user_id, "online", 1));
  presence.ended();
  vi.advanceTimersByTime(2000);
  presence.established(DEFAULT_LIMITS);
  presence.onFrame(said("cy", "online", 2));
  expect(presence.get("bo").status).toBe("online");
  vi.advanceTimersByTime(15_000);
  expect(presence.get("bo")).toMatchObject({ status: "unknown", stale: true });
  expect(presence.get("cy").status).toBe("online");
  presence.close();
});
