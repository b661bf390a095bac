/** The same values as the server's own tests have. */
import { describe, expect, it } from "vitest";
import { canonicalJson } from "../../src/party/canonical.js";
import { contentHash, fnv32, fnv64, orderHash, stateHash } from "../../src/party/hash.js";
import type { ClimbQueueItem } from "../../src/party/item.js";

const ONE = "11111111-1111-4111-8111-111111111111";
const TWO = "22222222-2222-4222-8222-222222222222";

const named = (uuid: string) => ({ uuid }) as ClimbQueueItem;

describe("the state hash", () => {
  it.each([
    [[], null, "995eb8de"],
    [["a"], null, "063c64dd"],
    [["b", "a"], null, "5bffd8ef"],
    [["a", "b"], "a", "5c186dfd"],
    [["a", "b"], "b", "59186944"],
    [[ONE], null, "5071dffc"],
    [[], ONE, "c634a481"],
    [[TWO, ONE], null, "a1b23e22"],
    [[ONE, TWO], TWO, "ba2eaffb"],
  ])("of %j with %j is %s", (uuids, current, hash) => {
    expect(stateHash(uuids.map(named), current === null ? null : named(current))).toBe(hash);
  });

  it("sorts by code units", () => {
    const [emoji, tilde] = ["\u{1f600}", "\u{ff5e}"];
    expect(stateHash([named(tilde), named(emoji)], null)).toBe(fnv32(`${emoji},${tilde}|null`));
  });
});

it("FNV has its published values", () => {
  expect(["", "a", "foobar"].map(fnv32)).toEqual(["811c9dc5", "e40c292c", "bf9cf968"]);
  expect(["", "a", "foobar"].map(fnv64)).toEqual([
    "cbf29ce484222325", "af63dc4c8601ec8c", "85944171f73967e8",
  ]);
});

it("the content and order hashes are those that the server computes", () => {
  const item = (number: number, mirrored: boolean | null): ClimbQueueItem => ({
    uuid: `${String(number).padStart(8, "0")}-0000-4000-8000-000000000000`,
    climb: {
      uuid: `climb${number}`,
      setter_username: "setter",
      name: `Cl\u{ed}mb \u{1f600} ${number}`,
      description: 'a\n"b"\u{1}',
      frames: "p1r12",
      angle: 40,
      ascensionist_count: 3,
      difficulty: "6a/V3",
      quality_average: "2.5",
      stars: 3.0,
      difficulty_error: "0.1",
      litUpHoldsMap: { "12": { state: "HAND", size: 1e21 }, "2": [null, 0.1, -0.0, 1e-7] },
      mirrored,
    },
    addedBy: null,
    suggested: true,
  });
  const [first, second] = [item(1, true), item(2, null)];
  expect(contentHash(first)).toBe("006fe51a1a919880");
  expect(contentHash(second)).toBe("9754846f80ef13e7");
  expect(orderHash([first, second], first)).toBe("bd126ccd427cd4bb");
  expect(orderHash([], null)).toBe("d7b63251b9f519be");
  expect(orderHash([second, first], first)).not.toBe("bd126ccd427cd4bb");
});

describe("canonical JSON", () => {
  it.each([
    ["3.0", "3"],
    ["-0.0", "0"],
    ["1e21", "1e+21"],
    ["0.0000001", "1e-7"],
    ["9007199254740993", "9007199254740992"],
    ['{ "b": [1, null, {"z": null}], "a": null, "A": true }', '{"A":true,"b":[1,null,{}]}'],
    ['{"\uff5e":1,"\u{1f600}":2}', '{"\u{1f600}":2,"\uff5e":1}'],
    ['"\\u0001\\b\\t\\n\\f\\r\\"\\\\\\/\\u007f\u00e9"',
      '"\\u0001\\b\\t\\n\\f\\r\\"\\\\/\u{7f}\u00e9"'],
  ])("of %s is %s", (json, canonical) => {
    expect(canonicalJson(JSON.parse(json))).toBe(canonical);
  });
});
