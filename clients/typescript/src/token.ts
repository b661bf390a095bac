/** Where tokens come from, and when they end. */
import { HeartlineError } from "./error.js";
import { NEVER } from "./frame_source.js";
import { TOKEN_BYTES_MAX } from "./protocol.gen.js";

/** Why the client asks for a token. */
export type TokenNeed =
  /** To connect, or for a REST request; the last token given is as good as a new one. */
  | "connect"
  /** The present one is about to end, or has ended: only a newer one helps. */
  | "refresh"
  /** The server did not accept the last one: only a different one helps. */
  | "refused";

/**
 * Gives tokens to a client. It is asked before every attempt to connect and before a token ends.
 * Throwing means "not now"; throwing a `HeartlineError` with the code `TOKEN_ENDED` means "never
 * again", and the client stops.
 */
export type TokenProvider = (need: TokenNeed) => string | Promise<string>;

/** How long a provider may take. */
const PROVIDER_TIMEOUT_MS = 30_000;

/** Asks a provider, within a time. */
export class TokenSource {
  readonly #provider: TokenProvider;
  /** The last token given. */
  last: string | undefined;

  constructor(token: string | TokenProvider) {
    this.#provider = typeof token === "string" ? () => token : token;
  }

  /** The token to use now. */
  async get(need: TokenNeed): Promise<string> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const error = new HeartlineError("NO_TOKEN", "no token came in time");
      timer = setTimeout(() => reject(error), PROVIDER_TIMEOUT_MS);
    });
    try {
      const asked = Promise.resolve().then(() => this.#provider(need));
      const token = await Promise.race([asked, late]);
      if (!isLegal(token)) throw new HeartlineError("NO_TOKEN", "this cannot be a token");
      this.last = token;
      return token;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The last token, unless it has ended or there is none. */
  async current(): Promise<string> {
    const { last } = this;
    const isGood = last !== undefined && (expiryOf(last) ?? NEVER) > Date.now();
    return isGood ? last : await this.get("connect");
  }
}

/**
 * When a token says that it ends, in milliseconds since the epoch. Nothing is verified, the server
 * does that; a token that is no JWT, or has no `exp`, has no known end.
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

/** Whether a token can stand in the list of subprotocols without changing what it says. */
function isLegal(token: unknown): token is string {
  const isText = typeof token === "string" && token.length <= TOKEN_BYTES_MAX;
  return isText && /^[A-Za-z0-9!#$%&'*+\-.^_`|~]+$/.test(token);
}
