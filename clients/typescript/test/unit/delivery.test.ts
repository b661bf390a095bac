import { expect, test } from "vitest";
import { Delivery } from "../../src/delivery.js";
import type { Message } from "../../src/protocol.gen.js";

const message = (sequence: number) => ({ chat_id: "chat_1", sequence }) as Message;

/** A delivery, and what it told. */
function delivery(): { some: Delivery; told: string[] } {
  const told: string[] = [];
  const some = new Delivery({
    handedOver: ({ sequence }) => told.push(`handed over ${sequence}`),
    left: (_, sequence) => told.push(`left after ${sequence}`),
    accepts: () => {},
  });
  return { some, told };
}

test("what comes when nobody listens is left, all of it", () => {
  const { some, told } = delivery();
  some.push("chat_1", [message(4), message(5)]);
  expect(told).toEqual(["left after 3"]);
});

test("who goes leaves what waits, except what is being taken", async () => {
  const { some, told } = delivery();
  const taking: (() => void)[] = [];
  const take = () => new Promise<void>((resolve) => taking.push(resolve));
  const removes = [some.listen("chat_1", take), some.listen(undefined, take)];
  some.push("chat_1", [message(1), message(2), message(3)]);
  removes[0]?.();
  expect(told).toEqual([]);
  removes[1]?.();
  expect(told).toEqual(["left after 1"]);
  for (const finish of taking) finish();
  await new Promise((resolve) => setTimeout(resolve, 0));
  expect(told).toEqual(["left after 1", "handed over 1"]);
  some.listen("chat_1", () => {});
  some.push("chat_1", [message(2)]);
  expect(told.at(-1)).toBe("handed over 2");
});
