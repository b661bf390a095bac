/** Tokens as an application's own back end would sign them. */
import { createHmac } from "node:crypto";

/** The secret that test servers accept. */
export const SECRET = "a secret for tests that is long enough to be taken";

/** A token of these claims, signed with HS256. */
export function sign(claims: Record<string, unknown>, secret: string = SECRET): string {
  const encode = (part: unknown) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const signed = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

/** A good token of a user, for so many seconds. */
export function token(
  user_id: string,
  seconds = 3600,
  more: Record<string, unknown> = {},
): string {
  return sign({ sub: user_id, exp: Math.floor(Date.now() / 1000) + seconds, ...more });
}

/** A token of the application's back end. */
export function serviceToken(): string {
  return token("backend", 3600, { scope: "service" });
}
