/** The URLs of a server. */

/** The addresses of one server. */
export interface Endpoint {
  /** `ws://…/v1/ws`. */
  socket_url: string;
  /** `http://…/v1`. */
  rest_url: string;
}

/**
 * Accepts `https://chat.example.com`, also with `http`, `ws` or `wss`, and with a path before
 * `/v1`. Throws for any other URL.
 */
export function endpointOf(url: string): Endpoint {
  const parsed = new URL(url);
  const [, secure] = /^(?:http|ws)(s?):$/.exec(parsed.protocol) ?? [];
  if (secure === undefined) {
    throw new TypeError(`the URL "${url}" must begin with http, https, ws or wss`);
  }
  const path = parsed.pathname.replace(/\/+$/, "").replace(/\/v1(\/ws)?$/, "");
  const base = `${secure}://${parsed.host}${path}/v1`;
  return { socket_url: `ws${base}/ws`, rest_url: `http${base}` };
}
