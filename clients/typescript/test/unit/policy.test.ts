import { expect, test } from "vitest";
import { BackOff } from "../../src/back_off.js";
import { Policy } from "../../src/policy.js";
import { CLOSE_REASONS, type CloseReason, type ConnectionClosing } from "../../src/protocol.gen.js";

const middle = () => 0.5;
const policy = (urls = 1) => new Policy(new BackOff(middle), urls);

function closed(reason: CloseReason, reconnect_delay_ms = 0) {
  const { code, reconnect } = CLOSE_REASONS[reason];
  const reconnect_allowed = reconnect !== "never" && reason !== "unauthorized";
  const closing: ConnectionClosing = { reason, reconnect_allowed, reconnect_delay_ms };
  return { kind: "closed", code, closing } as const;
}

test("every closing reason has the rule of the protocol", () => {
  for (const [name, { reconnect }] of Object.entries(CLOSE_REASONS)) {
    const reason = name as CloseReason;
    const next = policy().ended(closed(reason));
    if (reconnect === "never") expect(next).toEqual({ kind: "stop", reason });
    else {
      const needsNewToken = reconnect === "with_new_token";
      expect(next).toEqual({ kind: "retry", afterMs: 1000, isAsked: false, needsNewToken });
    }
    const asked = policy().ended(closed(reason, 700));
    if (asked.kind === "retry") expect(asked).toMatchObject({ afterMs: 700, isAsked: true });
  }
});

test("the code alone speaks where the closing frame was lost", () => {
  const ended = (code: number) => policy().ended({ kind: "closed", code, closing: undefined });
  expect(ended(4409)).toEqual({ kind: "stop", reason: "session_replaced" });
  expect(ended(4403)).toEqual({ kind: "stop", reason: "session_ended" });
  expect(ended(4401)).toMatchObject({ kind: "retry", needsNewToken: true });
  for (const code of [1001, 1006, 1008, 1011, 4429, 4999]) {
    expect(ended(code)).toMatchObject({ kind: "retry", needsNewToken: false });
  }
});

test("a second refused token is final, and a connection in between forgives", () => {
  const rules = policy();
  expect(rules.ended(closed("unauthorized"))).toMatchObject({ needsNewToken: true });
  expect(rules.ended(closed("unauthorized"))).toEqual({ kind: "stop", reason: "token_refused" });
  rules.established();
  expect(rules.ended(closed("token_expired"))).toMatchObject({ needsNewToken: true });
});

test("pauses grow with failures, URLs take turns, and a connection forgets it all", () => {
  const rules = policy(3);
  const pauses = [1000, 2000, 4000].map((afterMs, index) => {
    expect(rules.urlIndex).toBe(index);
    expect(rules.ended({ kind: "lost" })).toMatchObject({ afterMs });
    return afterMs;
  });
  expect([rules.urlIndex, rules.failures]).toEqual([0, pauses.length]);
  rules.established();
  expect(rules.failures).toBe(0);
  expect(rules.ended({ kind: "unopened", error: undefined })).toMatchObject({ afterMs: 1000 });
});

test("a pause that no server means is cut", () => {
  expect(policy().ended(closed("server_shutdown", 1e12))).toMatchObject({ afterMs: 3_600_000 });
});
