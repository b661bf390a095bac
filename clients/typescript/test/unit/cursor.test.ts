import { expect, test } from "vitest";
import { AHEAD_MESSAGES_MAX, Cursors } from "../../src/cursor.js";
import type { Message } from "../../src/protocol.gen.js";

const CHAT = "chat_1";

function message(sequence: number): Message {
  const words = { content: `${sequence}`, content_type: "text/plain", created_at: "" };
  const client_message_id = `${sequence}`;
  const names = { message_id: `msg_${sequence}`, sender_id: "ana", client_message_id };
  return { chat_id: CHAT, sequence, ...names, ...words };
}

const numbers = (messages: Message[]) => messages.map(({ sequence }) => sequence);

function begun(after = 0): Cursors {
  const cursors = new Cursors();
  cursors.begin(CHAT, after);
  return cursors;
}

test("what comes in order is given out at once, and nothing twice", () => {
  const cursors = begun();
  expect(numbers(cursors.take(message(1)))).toEqual([1]);
  expect(cursors.take(message(1))).toEqual([]);
  expect(numbers(cursors.take(message(2)))).toEqual([2]);
  expect(cursors.hasGap(CHAT, undefined)).toBe(false);
});

test("what comes above a hole waits for it", () => {
  const cursors = begun();
  expect(cursors.take(message(3))).toEqual([]);
  expect(cursors.take(message(2))).toEqual([]);
  expect(cursors.hasGap(CHAT, undefined)).toBe(true);
  expect(numbers(cursors.take(message(1)))).toEqual([1, 2, 3]);
  expect(cursors.reached(CHAT)).toBe(3);
});

test("one missing number above an unanswered send is no gap yet, one below it is", () => {
  const cursors = begun();
  cursors.take(message(1));
  cursors.take(message(3));
  expect(cursors.hasGap(CHAT, 1)).toBe(false);
  expect(cursors.hasGap(CHAT, 2)).toBe(true);
  cursors.saw(CHAT, 5);
  expect(cursors.hasGap(CHAT, 1)).toBe(true);
});

test("a chat that has not begun holds what comes until it is said where it begins", () => {
  const cursors = new Cursors();
  expect(cursors.take(message(1))).toEqual([]);
  expect(cursors.take(message(8))).toEqual([]);
  expect(cursors.hasGap(CHAT, undefined)).toBe(false);
  expect(numbers(cursors.begin(CHAT, 7))).toEqual([1, 8]);
  expect(cursors.begin(CHAT, 0)).toEqual([]);
  expect(cursors.reached(CHAT)).toBe(8);
});

test("a page passes over what the server keeps no longer, up to what was known", () => {
  const cursors = begun();
  cursors.saw(CHAT, 9);
  cursors.take(message(12));
  const range = { after: 0, highestSeen: 9 };
  expect(numbers(cursors.takePage(CHAT, range, [message(4), message(6)], true))).toEqual([4, 6]);
  expect(cursors.reached(CHAT)).toBe(6);
  const last = cursors.takePage(CHAT, { after: 6, highestSeen: 9 }, [message(7)], false);
  expect(numbers(last)).toEqual([7]);
  expect(cursors.reached(CHAT)).toBe(9);
  expect(cursors.hasGap(CHAT, undefined)).toBe(true);
});

test("a page that begins above the cursor proves nothing", () => {
  const cursors = begun();
  cursors.takePage(CHAT, { after: 5, highestSeen: 7 }, [message(6), message(7)], false);
  expect(cursors.reached(CHAT)).toBe(0);
  const filled = cursors.takePage(CHAT, { after: 0, highestSeen: 7 }, [message(1)], false);
  expect(numbers(filled)).toEqual([1, 6, 7]);
});

test("what waits is bounded, and what was dropped is missing", () => {
  const cursors = begun();
  for (let sequence = 2; sequence < AHEAD_MESSAGES_MAX + 10; sequence += 1) {
    cursors.take(message(sequence));
  }
  expect(cursors.take(message(1)).length).toBe(AHEAD_MESSAGES_MAX + 1);
  expect(cursors.hasGap(CHAT, undefined)).toBe(true);
  cursors.forget(CHAT);
  expect(cursors.reached(CHAT)).toBe(0);
});

test("any order of pushes, with pages in between, is given out once and ascending", () => {
  for (let seed = 1; seed <= 200; seed += 1) {
    let state = seed;
    const random = (below: number) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % below;
    };
    const cursors = begun();
    const given: number[] = [];
    for (let step = 0; step < 60; step += 1) {
      if (random(4) > 0) given.push(...numbers(cursors.take(message(1 + random(30)))));
      else {
        const after = cursors.reached(CHAT);
        const page = [1, 2, 3].map((offset) => after + offset).filter((number) => number <= 30);
        const range = { after, highestSeen: cursors.highestSeen(CHAT) };
        given.push(...numbers(cursors.takePage(CHAT, range, page.map(message), page.length > 0)));
      }
    }
    expect(given, `seed ${seed}`).toEqual(given.map((_, index) => index + 1));
  }
});
