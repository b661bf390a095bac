import { expect, test } from "vitest";
import { NEVER } from "../../src/frame_source.js";
import { Heartbeat } from "../../src/heartbeat.js";
import { Refresh } from "../../src/refresh.js";
import { expiryOf } from "../../src/token.js";
import { sign } from "../harness/token.js";

test("silence alone is no death, only an unanswered heartbeat is", () => {
  const heartbeat = new Heartbeat(5000, 10_000, 0);
  expect(heartbeat.deadAt).toBe(NEVER);
  heartbeat.sent(5000);
  heartbeat.sent(10_000);
  expect(heartbeat.deadAt).toBe(15_000);
  heartbeat.heard();
  expect(heartbeat.deadAt).toBe(NEVER);
});

test("a pause of the client is not held against the server", () => {
  const heartbeat = new Heartbeat(5000, 10_000, 0);
  heartbeat.resumed(1);
  expect(heartbeat.deadAt).toBe(NEVER);
  heartbeat.sent(5000);
  heartbeat.resumed(100_000);
  expect(heartbeat.deadAt).toBe(110_000);
  // Timers that are always late, as those of a hidden page, do not keep a dead server alive.
  heartbeat.resumed(160_000);
  expect(heartbeat.deadAt).toBe(110_000);
  heartbeat.heard();
  heartbeat.sent(165_000);
  heartbeat.resumed(200_000);
  expect(heartbeat.deadAt).toBe(210_000);
});

test("a probe has less patience, and no interval makes it spin", () => {
  const heartbeat = new Heartbeat(0, 0, 0);
  expect(heartbeat.nextAt).toBe(10);
  const doubted = new Heartbeat(5000, 10_000, 0);
  doubted.sent(0);
  doubted.sent(1000, 2000);
  expect(doubted.deadAt).toBe(3000);
});

test("a token is renewed after four fifths of its life, and at once when it has ended", () => {
  const refresh = new Refresh();
  refresh.inForce(1_100_000, 0, 1_000_000);
  expect(refresh.dueAt).toBe(80_000);
  refresh.expired(90_000);
  expect(refresh.dueAt).toBe(90_000);
  expect(refresh.begin()).toBe("refresh");
  refresh.notYet(90_000, 0);
  expect(refresh.dueAt).toBe(91_000);
});

test("a client whose clock is ahead waits for the server's word", () => {
  const refresh = new Refresh();
  refresh.inForce(1000, 0, 2000);
  expect(refresh.dueAt).toBe(NEVER);
});

test("only its own requests are its business, and a refused token is replaced", () => {
  const refresh = new Refresh();
  const request_id = refresh.offer("new");
  expect(refresh.accepted("other")).toBeUndefined();
  refresh.refused("other", 0, 0);
  refresh.refused(request_id, 0, 0);
  expect(refresh.accepted(request_id)).toBeUndefined();
  expect(refresh.begin()).toBe("refused");
});

test("the expiry is read without verifying, and what is no token has none", () => {
  expect(expiryOf(sign({ exp: 1_700_000_000, name: "Grüße 👋" }))).toBe(1_700_000_000_000);
  for (const text of ["", "opaque", "a.b", "a.%%%.c", "e30.e30.c2ln", sign({ exp: -1 })]) {
    expect(expiryOf(text)).toBeUndefined();
  }
});
