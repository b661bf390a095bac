import { expect, test } from "vitest";
import { BackOff } from "../../src/back_off.js";
import { Pace } from "../../src/pace.js";

test("it doubles from one to sixteen seconds, within a fifth", () => {
  for (const random of [() => 0, () => 0.5, () => 1]) {
    const backOff = new BackOff(random);
    for (const middle of [1000, 2000, 4000, 8000, 16_000, 16_000, 16_000]) {
      expect(backOff.next()).toBeCloseTo(middle * (0.8 + 0.4 * random()));
    }
    backOff.reset();
    expect(backOff.next()).toBeLessThan(1201);
  }
});

test("a pause that the server asked for is never shortened, and an absurd one is cut", () => {
  const backOff = new BackOff();
  for (let round = 0; round < 200; round += 1) {
    const delay = backOff.afterRefusal(10);
    expect(delay).toBeGreaterThanOrEqual(10_000);
    expect(delay).toBeLessThanOrEqual(12_000);
  }
  expect(backOff.afterRefusal(1e12)).toBeLessThan(2 * 60 * 60 * 1000);
  expect(backOff.afterRefusal(0)).toBeGreaterThanOrEqual(800);
});

test("a burst leaves at once and the rest at the rate", () => {
  const pace = new Pace(10, 20);
  const sentWithin = (start: number, period: number) => {
    let [now, count] = [start, 0];
    for (; now < start + period; now = pace.readyAt(now)) {
      pace.spend(now);
      count += 1;
    }
    return count;
  };
  expect(sentWithin(1000, 1)).toBe(18);
  const count = sentWithin(1_000_000, 10_000);
  expect(count).toBeGreaterThanOrEqual(106);
  expect(count).toBeLessThanOrEqual(109);
});

test("limits that make no sense still let frames through", () => {
  for (const [rate, burst] of [[0, 0], [0, 1e9], [1e9, 0]] as const) {
    const pace = new Pace(rate, burst);
    expect(pace.readyAt(5)).toBe(5);
    pace.spend(5);
    expect(pace.readyAt(5)).toBeLessThanOrEqual(1005);
  }
});
