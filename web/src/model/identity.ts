/** The user signed in in this tab, and the source of tokens. */
import { HeartlineError } from "heartline";
import { type ServerNode, askToken } from "./server.js";

/** How the user signed in: by a name, for which a development server signs, or by a token. */
export type SignIn = { name: string } | { token: string };

const KEY = "heartline.sign_in";
/** The lifetime of a development token: short enough to see renewals in an afternoon. */
const TTL_SECONDS = 900;
/** How long before its expiry a token is renewed. */
const RENEW_BEFORE_MS = 60_000;

/** A signed-in user. */
export class Identity {
  readonly user_id: string;
  /** Whether this page can request tokens, as a development server allows. */
  readonly isDevelopment: boolean;
  /** While set, new tokens have this lifetime; used by a fault. */
  shortLifeSeconds: number | undefined;
  /** While set, no new tokens are issued; used by a fault. */
  isWithheld = false;
  readonly #signIn: SignIn;
  #kept: { token: string; until: number } | undefined;
  #service: { token: string; until: number } | undefined;

  constructor(
    signIn: SignIn,
    readonly device_id: string,
    readonly node: ServerNode,
  ) {
    this.#signIn = signIn;
    this.isDevelopment = node.sign_in === "name";
    this.user_id = "name" in signIn ? signIn.name : subjectOf(signIn.token);
  }

  /** Whether a token was pasted, so that only another token helps once it is invalid. */
  get isByToken(): boolean {
    return "token" in this.#signIn;
  }

  /** Returns a token for this user. */
  async token(): Promise<string> {
    if (this.isWithheld) throw new Error("the renewal is withheld");
    const { user_id, device_id } = this;
    if ("token" in this.#signIn) return this.#signIn.token;
    const ttl_seconds = this.shortLifeSeconds ?? TTL_SECONDS;
    const token = await askToken({ user_id, device_id, ttl_seconds });
    this.#kept = { token, until: Date.now() + ttl_seconds * 1000 - RENEW_BEFORE_MS };
    return token;
  }

  /**
   * The token provider of the client library. A valid token is used again for a new connection,
   * because a server that is down signs none. A pasted token cannot be renewed; if it was rejected
   * it is returned again, which tells the library that there is no other.
   */
  readonly provider = async (need: "connect" | "refresh" | "refused"): Promise<string> => {
    if (need === "refresh" && this.isByToken) {
      throw new HeartlineError("TOKEN_ENDED", "sign in with a newer token");
    }
    const kept = this.#kept;
    const isGood = kept !== undefined && kept.until > Date.now() && !this.isWithheld;
    if (need === "connect" && isGood && this.shortLifeSeconds === undefined) return kept.token;
    return await this.token();
  };

  /** A token with the scope `service`, which only a development server signs for a page. */
  readonly serviceToken = async (): Promise<string> => {
    const kept = this.#service;
    if (kept !== undefined && kept.until > Date.now()) return kept.token;
    const request = { user_id: "console", scope: "service", ttl_seconds: TTL_SECONDS };
    const token = await askToken(request);
    this.#service = { token, until: Date.now() + TTL_SECONDS * 1000 - RENEW_BEFORE_MS };
    return token;
  };

  /** Keeps the sign-in over a reload of this tab. */
  remember(): void {
    sessionStorage.setItem(KEY, JSON.stringify(this.#signIn));
  }
}

/** The sign-in that this tab had before it was reloaded. */
export function remembered(): SignIn | undefined {
  const kept = sessionStorage.getItem(KEY);
  return kept === null ? undefined : (JSON.parse(kept) as SignIn);
}

/** Signs out, in this tab. */
export function forget(): void {
  sessionStorage.removeItem(KEY);
}

/** The user of a token. The token is not verified here; the server does that. */
export function subjectOf(token: string): string {
  try {
    const payload = (token.split(".")[1] ?? "").replace(/-/g, "+").replace(/_/g, "/");
    const { sub } = JSON.parse(atob(payload)) as { sub?: unknown };
    return typeof sub === "string" ? sub : "";
  } catch {
    return "";
  }
}
