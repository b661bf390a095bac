import { expect, test } from "vitest";
import { NEVER } from "../../src/frame_source.js";
import { BackOff } from "../../src/back_off.js";
import { Outbox } from "../../src/outbox.js";
import {
  type ClientFrameOf,
  DEFAULT_LIMITS,
  type ErrorFrame,
  type MessageAck,
} from "../../src/protocol.gen.js";

function outbox(): Outbox {
  const made = new Outbox(() => 7, new BackOff(() => 0.5));
  made.established(DEFAULT_LIMITS);
  return made;
}

function draft(chat_id: string, order: number) {
  return { chat_id, client_message_id: `m${order}`, content: `${order}`, order };
}

function next(of: Outbox, now: number): ClientFrameOf<"send_message"> | undefined {
  const frame = of.next(now);
  return frame?.type === "send_message" ? frame : undefined;
}

function ack(chat_id: string, client_message_id: string): MessageAck {
  const request_id = "any";
  const stored = { message_id: "msg_1", sequence: 8, created_at: "", duplicate: false };
  return { request_id, chat_id, client_message_id, ...stored };
}

function refusal(request_id: string | undefined, more: Partial<ErrorFrame>): ErrorFrame {
  return { request_id: request_id ?? "", code: "CONFLICT", message: "", retryable: false, ...more };
}

test("a chat sends one at a time in order, and chats do not wait for each other", () => {
  const some = outbox();
  for (const [index, chat_id] of ["a", "a", "b"].entries()) some.push(draft(chat_id, index + 1));
  expect(next(some, 0)?.client_message_id).toBe("m1");
  expect(next(some, 0)?.client_message_id).toBe("m3");
  expect(next(some, 0)).toBeUndefined();
  expect(some.unansweredAbove("a")).toBe(7);
  expect(some.acked(ack("a", "m2"))).toBeUndefined();
  expect(some.acked(ack("a", "m1"))).toMatchObject({ order: 1 });
  expect(next(some, 0)?.client_message_id).toBe("m2");
});

test("an open outcome keeps the message with its id, and a definite refusal gives it back", () => {
  const some = outbox();
  some.push(draft("a", 1));
  const first = next(some, 0);
  const open = refusal(first?.request_id, {
    code: "SERVICE_UNAVAILABLE",
    details: { outcome: "unknown" },
  });
  expect(some.refused(open, 0)).toMatchObject({ draft: { chat_id: "a" }, isFinal: false });
  expect(some.unansweredAbove("a")).toBeUndefined();
  expect(next(some, 999)).toBeUndefined();
  const second = next(some, 1000);
  expect(second).toMatchObject({ client_message_id: "m1" });
  expect(second?.request_id).not.toBe(first?.request_id);
  expect(some.refused(refusal(first?.request_id, {}), 1000)).toBeUndefined();
  expect(some.refused(refusal(second?.request_id, {}), 1000)).toMatchObject({ isFinal: true });
  expect(some.dueAt(1000)).toBe(NEVER);
});

test("a rate limit holds every chat until the server's pause is over or a token is new", () => {
  const some = outbox();
  some.push(draft("a", 1));
  some.push(draft("b", 2));
  const limited = { code: "RATE_LIMITED", retryable: true, retry_after_seconds: 3 } as const;
  some.refused(refusal(next(some, 0)?.request_id, limited), 0);
  expect(next(some, 2999)).toBeUndefined();
  some.tokenRefreshed();
  expect(next(some, 3000)?.client_message_id).toBe("m1");
});

test("a message without any answer is sent again with the same id", () => {
  const some = outbox();
  some.push(draft("a", 1));
  next(some, 0);
  expect(some.dueAt(0)).toBe(20_000);
  const dueAt = some.dueAt(20_000);
  expect(dueAt).toBe(21_000);
  expect(next(some, dueAt)?.client_message_id).toBe("m1");
});
