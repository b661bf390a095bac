/** The URL of the GraphQL endpoint. */

const PATH = "/graphql";

/**
 * Accepts the same URLs as the chat client, such as `https://example.com`, also with `http`, `ws`
 * or `wss`, and with a path before `/graphql`. Throws for any other URL.
 */
export function graphqlUrlOf(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  const scheme = /^(?:http|ws)(s?):$/.exec(protocol);
  if (scheme === null) {
    throw new TypeError(`the URL "${url}" must begin with http, https, ws or wss`);
  }
  const path = pathname.replace(/\/+$/, "");
  return `ws${scheme[1]}://${host}${path.endsWith(PATH) ? path : path + PATH}`;
}
