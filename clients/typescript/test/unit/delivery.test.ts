import { expect, test } from "vitest";
import { Delivery } from "../../src/delivery.js";
import type { Message } from "../../src/protocol.gen.js";

const message = (chat_id: string, sequence: number) => ({ chat_id, sequence }) as Message;
const numbered = (chat_id: string, count: number) =>
  Array.from({ length: count }, (_, index) => message(chat_id, index + 1));

/** A delivery whose listener takes what it gets one by one. */
function slow() {
  const roomFor: (string | undefined)[] = [];
  const delivery = new Delivery({
    handedOver() {},
    left() {},
    accepts: (chat_id) => void roomFor.push(chat_id),
  });
  const taking: (() => void)[] = [];
  const got: string[] = [];
  delivery.listen(undefined, ({ chat_id, sequence }) => {
    got.push(`${chat_id} ${sequence}`);
    return new Promise<void>((resolve) => taking.push(resolve));
  });
  roomFor.length = 0;
  const take = async () => {
    taking.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { delivery, roomFor, got, take };
}

test("other chats hear of room again while one chat is slow", async () => {
  const { delivery, roomFor, take } = slow();
  delivery.push("a", numbered("a", 1000));
  expect(delivery.accepts("b")).toBe(false);
  for (let taken = 0; taken < 600; taken += 1) await take();
  expect(delivery.accepts("b")).toBe(true);
  expect(roomFor).toEqual([undefined]);
});

test("what waits in a chat that is over is dropped, and a new life of it begins anew", async () => {
  const { delivery, got, take } = slow();
  delivery.push("a", numbered("a", 3));
  delivery.forget("a");
  delivery.push("a", [message("a", 7), message("a", 8)]);
  for (let taken = 0; taken < 6; taken += 1) await take();
  expect(got).toEqual(["a 1", "a 7", "a 8"]);
});
