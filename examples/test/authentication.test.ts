/** Runs the commands and programs of docs/authentication.md. */
import { execFile } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client, RefusedError } from "heartline";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { eventually } from "../../clients/typescript/test/harness/eventually.js";
import { Scratch, run } from "../../clients/typescript/test/harness/process.js";
import { Server } from "../../clients/typescript/test/harness/server.js";
import { SECRET, serviceToken, sign, token } from "../../clients/typescript/test/harness/token.js";
import { blockOf, blocksOf, textOf } from "./harness/document.js";

const DOCUMENT = "authentication.md";
const OTHER_SECRET = "another secret that is long enough to be taken";
const LOGGING = { HEARTLINE__LOG__LEVEL: "info,heartline_gateway::accept=debug" };

let scratch: Scratch;
let server: Server;
beforeAll(async () => {
  scratch = new Scratch("authentication");
  server = await Server.start({ environment: LOGGING });
});
afterAll(async () => {
  await server.remove();
  await scratch.remove();
});

/** How a server takes a token: as whom, or with which status and code it refuses. */
async function takes(signed: string, url: string = server.url): Promise<string> {
  const headers = { Authorization: `Bearer ${signed}` };
  const answer = await fetch(`${url}/v1/users/me`, { headers });
  const body = (await answer.json()) as { user_id?: string; error?: { code: string } };
  return body.user_id ?? `${answer.status} ${body.error?.code}`;
}

/**
 * Runs a program of the document; answers the token that it prints. It does not stop the world
 * meanwhile: others wait for answers here.
 */
async function printed(program: string, file: string, secret: string): Promise<string> {
  writeFileSync(join(scratch.path, file), blockOf(DOCUMENT, file));
  const { stdout } = await promisify(execFile)(program, [file, "ana"], {
    cwd: scratch.path,
    env: { ...process.env, HEARTLINE_SECRET: secret },
  });
  return stdout.trim();
}

test.concurrent.each([
  ["node", "sign_token.mjs"],
  ["python3", "sign_token.py"],
  ["php", "sign_token.php"],
])("what %s signs with %s connects, and with another secret it does not", async (program, file) => {
  const signedWell = await printed(program, file, SECRET);
  const good = new Client({ url: server.url, token: signedWell, WebSocket });
  await good.connect();
  expect(good.user_id).toBe("ana");
  await good.close();

  const signed = await printed(program, file, OTHER_SECRET);
  expect(await takes(signed)).toBe("401 UNAUTHORIZED");
  const bad = new Client({ url: server.url, token: signed, WebSocket });
  await expect(bad.connect()).rejects.toMatchObject({ code: "STOPPED" });
  expect(bad.stop_reason).toBe("token_refused");
  await expect(bad.rest.getMe()).rejects.toSatisfy(
    (error) => error instanceof RefusedError && error.code === "UNAUTHORIZED",
  );
  await bad.close();
});

test("a pair of keys is made and used as the document says", async () => {
  const commands = blocksOf(DOCUMENT).find(({ code }) => code.includes("openssl genpkey"));
  const [generate = "", publish = "", serve = ""] = commands?.code.trim().split("\n") ?? [];
  run("sh", ["-c", `${generate} && ${publish}`], { cwd: scratch.path });
  const [, name = "", file = ""] = /^(HEARTLINE__\w+)=(\S+) heartline serve$/.exec(serve) ?? [];
  const other = await Server.start({
    environment: { HEARTLINE__AUTH__HMAC_SECRET: "", [name]: join(scratch.path, file) },
  });
  try {
    expect(await takes(await printed("node", "sign_token_ed25519.mjs", ""), other.url)).toBe("ana");
    expect(await takes(token("ana"), other.url)).toBe("401 UNAUTHORIZED");
    const { privateKey } = generateKeyPairSync("ed25519");
    const pem = privateKey.export({ type: "pkcs8", format: "pem" });
    writeFileSync(join(scratch.path, "private.pem"), pem);
    const forged = await printed("node", "sign_token_ed25519.mjs", "");
    expect(await takes(forged, other.url)).toBe("401 UNAUTHORIZED");
  } finally {
    await other.remove();
  }
});

test("while a secret is changed both are good, and no third one", async () => {
  expect(textOf(DOCUMENT)).toContain("HEARTLINE__AUTH__HMAC_SECRETS=OLD,NEW");
  const other = await Server.start({
    environment: {
      HEARTLINE__AUTH__HMAC_SECRET: "",
      HEARTLINE__AUTH__HMAC_SECRETS: `${SECRET},${OTHER_SECRET}`,
    },
  });
  try {
    const claims = { sub: "ana", exp: Math.floor(Date.now() / 1000) + 60 };
    expect(await takes(sign(claims), other.url)).toBe("ana");
    expect(await takes(sign(claims, OTHER_SECRET), other.url)).toBe("ana");
    expect(await takes(sign(claims, `${SECRET}!`), other.url)).toBe("401 UNAUTHORIZED");
  } finally {
    await other.remove();
  }
});

test("whoever is thrown out is closed everywhere, and the library stops", async () => {
  const client = new Client({ url: server.url, token: token("di"), WebSocket });
  await client.connect();
  const stopped = new Promise<void>((resolve) => {
    client.onState((state) => state === "stopped" && resolve());
  });
  const command = blocksOf(DOCUMENT).find(({ code }) => code.startsWith("curl"))?.code ?? "";
  const own = command.replace("http://127.0.0.1:7400", server.url).replace("/ana/", "/di/");
  run("env", [`SERVICE_TOKEN=${serviceToken()}`, "sh", "-c", own]);
  await stopped;
  expect(client.stop_reason).toBe("session_ended");
  await client.close();
});

const IN_A_MINUTE = Math.floor(Date.now() / 1000) + 60;
const GOOD = { sub: "ana", exp: IN_A_MINUTE };

const NO_KEY = "no key fits its algorithm and signature";
const WRONG_CLAIM = "sub or exp is missing, or a claim has the wrong type";

test.each<[string, string, string]>([
  ["with another secret", sign(GOOD, OTHER_SECRET), NO_KEY],
  ["with padding", `${sign(GOOD)}=`, NO_KEY],
  ["without an end", sign({ sub: "ana" }), WRONG_CLAIM],
  ["with a fraction of a second", sign({ ...GOOD, exp: IN_A_MINUTE + 0.5 }), WRONG_CLAIM],
  ["with a number for a user", sign({ ...GOOD, sub: 7 }), WRONG_CLAIM],
  ["with a space in the user's id", sign({ ...GOOD, sub: "ana maria" }), "sub is not a user id"],
  ["with milliseconds", sign({ ...GOOD, exp: IN_A_MINUTE * 1000 }), "exp is not in seconds"],
  ["that has ended", sign({ ...GOOD, exp: 1 }), "it has expired"],
  ["that begins later", sign({ ...GOOD, nbf: IN_A_MINUTE }), "it is not valid yet (nbf)"],
  ["that is none", "undefined", "it does not have three parts"],
  ["that is not signed", unsigned(), "unknown algorithm"],
])("a token %s is refused, and the log says why", async (_, bad, reason) => {
  await isRefusedFor(server, bad, reason);
});

test("a token of another issuer or for another audience is refused", async () => {
  const other = await Server.start({
    environment: {
      ...LOGGING,
      HEARTLINE__AUTH__ISSUER: "https://example.com",
      HEARTLINE__AUTH__AUDIENCE: "chat",
    },
  });
  try {
    const right = { ...GOOD, iss: "https://example.com", aud: ["shop", "chat"] };
    expect(await takes(sign(right), other.url)).toBe("ana");
    await isRefusedFor(other, sign({ ...right, iss: "me" }), "iss is not the configured one");
    const reason = "aud does not name the configured audience";
    await isRefusedFor(other, sign({ ...right, aud: "shop" }), reason);
  } finally {
    await other.remove();
  }
});

/** The refusal says nothing; the log gives a reason that the document explains. */
async function isRefusedFor(by: Server, bad: string, reason: string): Promise<void> {
  const lines = by.log.length;
  expect(await takes(bad, by.url)).toBe("401 UNAUTHORIZED");
  const isSaid = () => by.log.slice(lines).some((line) => line.endsWith(`not valid: ${reason}`));
  await eventually(`the log says: ${reason}`, isSaid, 20_000);
  expect(textOf(DOCUMENT)).toContain(`| \`${reason}\` |`);
}

test("a good token without the scope is forbidden what is a service's", async () => {
  const asked = { user_ids: ["ana"], name: "greeting", data: {} };
  const status = async (signed: string) => {
    const headers = { Authorization: `Bearer ${signed}`, "Content-Type": "application/json" };
    const body = JSON.stringify(asked);
    return (await fetch(`${server.url}/v1/push`, { method: "POST", headers, body })).status;
  };
  expect(await status(token("ana"))).toBe(403);
  expect(await status(serviceToken())).toBe(200);
});

test("no program of the document is left out here", () => {
  const files = blocksOf(DOCUMENT).flatMap(({ file }) => (file === undefined ? [] : [file]));
  const signing = ["sign_token.mjs", "sign_token.py", "sign_token.php"];
  expect(files).toEqual([...signing, "sign_token_ed25519.mjs"]);
});

function unsigned(): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
  return `${encode({ alg: "none" })}.${encode(GOOD)}.`;
}
