import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { HeartlineError, type TokenNeed } from "../src/index.js";
import { eventually } from "./harness/eventually.js";
import { Server } from "./harness/server.js";
import { Stream } from "./harness/stream.js";
import { sign, token } from "./harness/token.js";
import { User } from "./harness/user.js";

let server: Server;
beforeAll(async () => {
  server = await Server.start({
    configuration: `
[gateway]
token_grace = "2s"
[limits]
send_rate = 1000
send_burst = 1000
`,
    environment: { HEARTLINE__AUTH__LEEWAY: "0s" },
  });
});
afterAll(() => server.remove());

const users: User[] = [];
afterEach(async () => {
  for (const user of users.splice(0)) await user.close();
});

function user(user_id: string, options: ConstructorParameters<typeof User>[2]): User {
  const made = new User(user_id, server.url, options);
  made.listen();
  users.push(made);
  return made;
}

test("a token is renewed before it ends, without a new connection", async () => {
  const needs: TokenNeed[] = [];
  const ana = user("ana", {
    token: (need) => {
      needs.push(need);
      return token("ana", 4);
    },
  });
  await ana.client.connect();
  const stream = new Stream(ana, await ana.chatWith("bo"));
  await eventually("renewed twice", () => ana.count("refresh_token") >= 2);
  await stream.isHeardBy(ana);
  expect(ana.states).toEqual(["connecting", "connected"]);
  expect(ana.received.some((text) => text.includes('"token_expired"'))).toBe(false);
  expect(new Set(needs)).toEqual(new Set(["connect", "refresh"]));
});

test("a token is renewed when the application asks, for the socket and for REST", async () => {
  const given: string[] = [];
  let isAway = false;
  const ana = user("ana-now", {
    token: (need) => {
      if (isAway) throw new HeartlineError("NO_TOKEN", "not now");
      given.push(token("ana-now", 3600, { need, n: given.length }));
      return given.at(-1) ?? "";
    },
    fetch: async (url, init) => {
      const { Authorization } = init?.headers as Record<string, string>;
      expect(Authorization).toBe(`Bearer ${given.at(-1)}`);
      return await fetch(url, init);
    },
  });
  await ana.client.refreshToken();
  expect(given.length).toBe(1);
  await ana.client.connect();
  await ana.client.refreshToken();
  expect(ana.sent.at(-1)).toMatchObject({ type: "refresh_token", token: given.at(-1) });
  const answer = '"token_refreshed"';
  await eventually("it is taken", () => ana.received.some((text) => text.includes(answer)));
  await ana.client.rest.getMe();
  isAway = true;
  await expect(ana.client.refreshToken()).rejects.toMatchObject({ code: "NO_TOKEN" });
  expect(ana.states).toEqual(["connecting", "connected"]);
});

test("a provider that comes late costs a connection and no message", async () => {
  const tokens: string[] = [];
  let isLate = false;
  const ana = user("ana-late", {
    token: (need) => {
      if (isLate && need === "refresh") throw new Error("not now");
      tokens.push(token("ana-late", need === "refused" ? 3600 : 2, { n: tokens.length }));
      return tokens.at(-1) ?? "";
    },
  });
  await ana.client.connect();
  isLate = true;
  const stream = new Stream(ana, await ana.chatWith("bo"));
  await eventually("it ends", () => ana.received.some((text) => text.includes('"token_expired"')));
  await eventually("it is closed", () => ana.client.state === "reconnecting");
  await ana.becomes("connected");
  await stream.isHeardBy(ana);
});

test("a token that is not good is replaced once, and then the client stops", async () => {
  const needs: TokenNeed[] = [];
  const bad = (n: number) => sign({ sub: "eve", exp: 9_999_999_999, n }, "another secret entirely");
  const eve = user("eve", { token: (need) => bad(needs.push(need)) });
  await expect(eve.client.connect()).rejects.toMatchObject({ code: "STOPPED" });
  expect(eve.client.stop_reason).toBe("token_refused");
  // The first was refused in the upgrade, where a browser cannot see why; the second said so.
  expect(needs).toEqual(["connect", "connect", "refused"]);
});

test("one good token after a bad one is enough", async () => {
  const ana = user("ana-again", {
    token: (need) => (need === "refused" ? token("ana-again") : "not-a-token"),
  });
  await ana.client.connect();
  expect(ana.client.user_id).toBe("ana-again");
});

test("a provider that has ended stops the client", async () => {
  const ana = user("ana-out", {
    token: () => {
      throw new HeartlineError("TOKEN_ENDED", "logged out");
    },
  });
  await expect(ana.client.connect()).rejects.toMatchObject({ code: "STOPPED" });
  expect(ana.client.stop_reason).toBe("token_ended");
});

test("a connection that is replaced does not come back by itself", async () => {
  const first = user("dora", { device_id: "phone" });
  await first.client.connect();
  const second = user("dora", { device_id: "phone" });
  await second.client.connect();
  await first.becomes("stopped");
  expect(first.client.stop_reason).toBe("session_replaced");
  await first.client.connect();
  await second.becomes("stopped");
});
