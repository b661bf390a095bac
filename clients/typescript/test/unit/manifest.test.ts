import { expect, test } from "vitest";
import { NEVER } from "../../src/frame_source.js";
import { BackOff } from "../../src/back_off.js";
import { Manifest } from "../../src/manifest.js";
import type { ErrorFrame } from "../../src/protocol.gen.js";

const chat = (chat_id: string) => ({ chat_id, head_sequence: 1, last_acked_sequence: 0 });
const manifest = () => new Manifest(new BackOff(() => 0.5));

/** Asks, and answers the request's name. */
function ask(of: Manifest, now: number): string {
  const frame = of.next(now);
  if (frame?.type !== "sync_manifest") throw new Error("nothing is asked for");
  return frame.request_id;
}

test("a resync waits for its delay, and two become one", () => {
  const some = manifest();
  some.resync(["a"], 1500, 0);
  some.resync(["b"], 500, 0);
  expect(some.next(499)).toBeUndefined();
  expect(some.dueAt(0)).toBe(500);
  const request_id = ask(some, 500);
  expect(some.answered(request_id, [chat("a")], "page-2", 510)).toBe("more");
  const second = some.next(510);
  expect(second).toMatchObject({ page: "page-2" });
  // Everything that was meant has been met, so the rest is not read.
  const id = second?.type === "sync_manifest" ? second.request_id : "";
  expect(some.answered(id, [chat("b")], "page-3", 520)).toBe("complete");
  expect(some.dueAt(520)).toBe(NEVER);
});

test("a resync during a round is followed by another round", () => {
  const some = manifest();
  some.established(0);
  const request_id = ask(some, 0);
  some.resync(undefined, 100, 10);
  expect(some.answered("somebody else's", [], undefined, 20)).toBe("not_mine");
  expect(some.answered(request_id, [], undefined, 20)).toBe("complete");
  expect(some.dueAt(20)).toBe(110);
  ask(some, 110);
  some.ended();
  expect(some.dueAt(200)).toBe(NEVER);
});

test("a refused page is asked for again after the pause, and one without an answer too", () => {
  const some = manifest();
  some.established(0);
  const busy: ErrorFrame = {
    request_id: ask(some, 0),
    code: "SERVER_BUSY",
    message: "",
    retryable: true,
    retry_after_seconds: 2,
  };
  expect(some.refused({ ...busy, request_id: "other" }, 0)).toBe(false);
  expect(some.refused(busy, 0)).toBe(true);
  expect(some.next(1999)).toBeUndefined();
  ask(some, 2500);
  expect(some.next(10_000)).toBeUndefined();
  ask(some, 30_000);
});
