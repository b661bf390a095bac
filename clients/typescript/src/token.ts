/** Calls the token provider, and reads the expiry of tokens. */
import { HeartlineError } from "./error.js";
import { NEVER } from "./frame_source.js";
import { TOKEN_BYTES_MAX } from "./protocol.gen.js";

/** Why the client requests a token. */
export type TokenNeed =
  /** To connect, or for a REST request; the last token is as good as a new one. */
  | "connect"
  /** The current token is about to expire, or has expired: a newer one is needed. */
  | "refresh"
  /** The server rejected the last token: a different one is needed. */
  | "refused";

/**
 * Returns tokens to a client. The client calls it before every attempt to connect and before a
 * token expires. If it throws, the client tries again later; if it throws a `HeartlineError` with
 * the code `TOKEN_ENDED`, the client stops.
 */
export type TokenProvider = (need: TokenNeed) => string | Promise<string>;

/** The time limit of a provider. */
const PROVIDER_TIMEOUT_MS = 30_000;

/** Calls a provider, with a time limit. */
export class TokenSource {
  readonly #provider: TokenProvider;
  /** The last token. */
  last: string | undefined;

  constructor(token: string | TokenProvider) {
    this.#provider = typeof token === "string" ? () => token : token;
  }

  /** Returns the token to use now. */
  async get(need: TokenNeed): Promise<string> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = new HeartlineError("NO_TOKEN", "the token provider did not answer in time");
      timer = setTimeout(() => reject(error), PROVIDER_TIMEOUT_MS);
    });
    try {
      const asked = Promise.resolve().then(() => this.#provider(need));
      const token = await Promise.race([asked, late]);
      if (!isLegal(token)) {
        const message = "the token provider returned no token: it must return a JWT as a string";
        throw new HeartlineError("NO_TOKEN", message);
      }
      this.last = token;
      return token;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The last token, if there is one and it has not expired. */
  async current(): Promise<string> {
    const { last } = this;
    const isGood = last !== undefined && (expiryOf(last) ?? NEVER) > Date.now();
    return isGood ? last : await this.get("connect");
  }
}

/**
 * The expiry of a token, in milliseconds since the epoch. The token is not verified, which is the
 * server's task; undefined if it is not a JWT or has no `exp`.
 */
export function expiryOf(token: string): number | undefined {
  try {
    const payload = (token.split(".")[1] ?? "").replace(/-/g, "+").replace(/_/g, "/");
    const claims: unknown = JSON.parse(atob(payload));
    const exp = (claims as { exp?: unknown }).exp;
    return typeof exp === "number" && exp >= 0 ? exp * 1000 : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a token can be sent in the list of subprotocols unchanged. */
function isLegal(token: unknown): token is string {
  const isText = typeof token === "string" && token.length <= TOKEN_BYTES_MAX;
  return isText && /^[A-Za-z0-9!#$%&'*+\-.^_`|~]+$/.test(token);
}
