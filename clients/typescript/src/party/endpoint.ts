/** Where GraphQL is. */

const PATH = "/graphql";

/**
 * Takes what the chat client takes, such as `https://example.com`, or with `http`, `ws` or `wss`,
 * and perhaps with a path in front of `/graphql`. Throws for what is no such URL.
 */
export function graphqlUrlOf(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  const scheme = /^(?:http|ws)(s?):$/.exec(protocol);
  if (scheme === null) {
    throw new TypeError(`${url} is no address of a server: it begins with http, https, ws or wss`);
  }
  const path = pathname.replace(/\/+$/, "");
  return `ws${scheme[1]}://${host}${path.endsWith(PATH) ? path : path + PATH}`;
}
