import { expect, test } from "vitest";
import { endpointOf } from "../../src/endpoint.js";
import { HeartlineError, RefusedError } from "../../src/error.js";
import { Rest } from "../../src/rest.js";
import { TokenSource } from "../../src/token.js";

type Answer = () => Response;

function rest(...answers: Answer[]): { rest: Rest; asked: string[]; tokens: string[] } {
  const [asked, tokens]: [string[], string[]] = [[], []];
  const fetcher = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
    asked.push(`${init?.method} ${String(url)}`);
    tokens.push(new Headers(init?.headers).get("Authorization") ?? "");
    const answer = answers.shift();
    if (answer === undefined) throw new TypeError("fetch failed");
    return answer();
  };
  let given = 0;
  const source = new TokenSource(() => `token-${++given}`);
  return { rest: new Rest(["http://one/v1", "http://two/v1"], source, fetcher), asked, tokens };
}

const json = (status: number, body: unknown, headers = {}): Answer => () =>
  new Response(JSON.stringify(body), { status, headers });

test("a refusal has its code, its status and when to try again", async () => {
  const error = { code: "RATE_LIMITED", message: "slowly", request_id: "r1", details: {} };
  const { rest: api } = rest(json(429, { error }, { "Retry-After": "7" }));
  const refused = await api.getMe().catch((thrown: unknown) => thrown);
  expect(refused).toBeInstanceOf(RefusedError);
  expect(refused).toMatchObject({
    code: "RATE_LIMITED",
    status: 429,
    retryable: true,
    retry_after_seconds: 7,
    request_id: "r1",
  });
});

test("what a proxy answers is an error too", async () => {
  const { rest: api } = rest(() => new Response("<html>", { status: 502 }));
  await expect(api.getMe()).rejects.toMatchObject({ code: "SERVICE_UNAVAILABLE", status: 502 });
});

test("an answer that is cut off is no answer", async () => {
  const late = new DOMException("late", "TimeoutError");
  const body = () => new ReadableStream({ start: (controller) => controller.error(late) });
  const cut = rest(() => new Response(body()), () => new Response(body()));
  await expect(cut.rest.getMe()).rejects.toMatchObject({ code: "TIMEOUT" });
});

test("a refused token is replaced once", async () => {
  const error = { code: "UNAUTHORIZED", message: "", request_id: "" };
  const { rest: api, tokens } = rest(json(401, { error }), json(200, { user_id: "ana" }));
  expect(await api.getMe()).toEqual({ user_id: "ana" });
  expect(tokens).toEqual(["Bearer token-1", "Bearer token-2"]);
});

test("another server is asked only for what changes nothing", async () => {
  const { rest: api, asked } = rest();
  await expect(api.getMe()).rejects.toMatchObject({ code: "UNREACHABLE" });
  expect(asked).toEqual(["GET http://one/v1/users/me", "GET http://two/v1/users/me"]);
  await expect(api.leaveChat("chat_1")).rejects.toBeInstanceOf(HeartlineError);
  expect(asked.length).toBe(3);
});

test("names and pages are written into the address", async () => {
  const page = { items: [], next_cursor: null };
  const { rest: api, asked } = rest(json(200, page), () => new Response(null, { status: 204 }));
  await api.listMessages("chat_1", { before_sequence: 9, limit: 2 });
  await api.putContact("bo|+@x/y");
  expect(asked).toEqual([
    "GET http://one/v1/chats/chat_1/messages?before_sequence=9&limit=2",
    "PUT http://one/v1/contacts/bo%7C%2B%40x%2Fy",
  ]);
});

test("an address may be written in every usual way, and no other", () => {
  const endpoint = { socket_url: "wss://a.example/v1/ws", rest_url: "https://a.example/v1" };
  for (const url of ["https://a.example", "wss://a.example/", "https://a.example/v1/ws"]) {
    expect(endpointOf(url)).toEqual(endpoint);
  }
  expect(endpointOf("http://localhost:7400/chat/").socket_url).toBe(
    "ws://localhost:7400/chat/v1/ws",
  );
  for (const url of ["a.example", "ftp://a.example"]) {
    expect(() => endpointOf(url)).toThrow(TypeError);
  }
});
