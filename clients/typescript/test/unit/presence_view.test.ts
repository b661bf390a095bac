import { expect, test } from "vitest";
import { PresenceView } from "../../src/presence_view.js";
import type { Presence } from "../../src/protocol.gen.js";

const online = (version: number, user_id = "bo"): Presence => ({
  user_id,
  status: "online",
  version,
});
const offline = (version: number): Presence => ({ user_id: "bo", status: "offline", version });
const unknown: Presence = { user_id: "bo", status: "unknown" };

test("only what is newer counts, and only what changes is news", () => {
  const view = new PresenceView();
  expect(view.take(online(5))).toBe(true);
  expect(view.take(offline(5))).toBe(false);
  expect(view.take(offline(4))).toBe(false);
  expect(view.take(online(6))).toBe(false);
  expect(view.take(offline(7))).toBe(true);
  expect(view.get("bo")?.status).toBe("offline");
});

test("unknown always counts, and so does whatever follows it", () => {
  const view = new PresenceView();
  view.take(online(9));
  expect(view.take(unknown)).toBe(true);
  expect(view.take(unknown)).toBe(false);
  expect(view.take({ ...unknown, stale: true })).toBe(true);
  expect(view.take(offline(1))).toBe(true);
});

test("after a connection whatever is said counts, and without one for long nobody knows", () => {
  const view = new PresenceView();
  view.take(online(9));
  view.ended();
  expect(view.get("bo")?.status).toBe("online");
  expect(view.take(offline(2))).toBe(true);
  expect(view.lose()).toEqual([]);
  view.ended();
  expect(view.lose()).toEqual([{ user_id: "bo", status: "unknown", stale: true }]);
  expect(view.lose()).toEqual([]);
});

test("of those whom nobody asked for the oldest give way, and never the watched", () => {
  const view = new PresenceView();
  view.watch("bo");
  view.take(online(1));
  for (let number = 0; number < 1500; number += 1) view.take(online(1, `user-${number}`));
  expect(view.get("user-0")).toBeUndefined();
  expect(view.get("user-1499")).toBeDefined();
  expect(view.get("bo")).toBeDefined();
});
