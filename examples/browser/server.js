/** The back end of the application: it serves the page, and signs tokens for its users. */
import { createHmac } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const secret = process.env["HEARTLINE_SECRET"] ?? "";
const port = Number(process.env["PORT"] ?? 8080);
if (secret === "") {
  console.error("HEARTLINE_SECRET must be the secret that the Heartline server knows");
  process.exit(2);
}

/** @param {string} user_id */
function signToken(user_id) {
  /** @param {object} part */
  const encode = (part) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const claims = { sub: user_id, exp: Math.floor(Date.now() / 1000) + 3600 };
  const signed = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

/** @param {string} path */
function fileAt(path) {
  const [, module] = /^\/heartline\/((?:\w+\/)?[\w.]+\.js)$/.exec(path) ?? [];
  if (module !== undefined) return new URL(module, import.meta.resolve("heartline"));
  if (path === "/main.js") return new URL("main.js", import.meta.url);
  if (path === "/") return new URL("index.html", import.meta.url);
  throw new Error(`there is no ${path}`);
}

/** @param {string} url @param {import("node:http").ServerResponse} response */
async function answer(url, response) {
  const { pathname, searchParams } = new URL(url, "http://localhost");
  if (pathname === "/token") {
    // A real back end takes the user from its own session, never from the request.
    response.end(signToken(searchParams.get("user") ?? ""));
    return;
  }
  const file = fileAt(pathname);
  const content = await readFile(file);
  const type = file.pathname.endsWith(".js") ? "text/javascript" : "text/html";
  response.setHeader("Content-Type", `${type}; charset=utf-8`).end(content);
}

const server = createServer((request, response) => {
  answer(request.url ?? "/", response).catch(() => response.writeHead(404).end("not found"));
});
server.listen(port, "127.0.0.1", () => console.log(`The page is at http://127.0.0.1:${port}`));
