/**
 * Returns a token from `heartline dev`, which signs tokens for requests from its own machine. In an
 * application, call your own back end instead, as `browser/main.js` does.
 *
 * @param {string} url the server
 * @param {string} user_id the user's id
 * @returns {Promise<string>}
 */
export async function devToken(url, user_id) {
  const answer = await fetch(`${url}/dev/token`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ user_id }),
  });
  if (!answer.ok) throw new Error(`no token: ${answer.status} ${await answer.text()}`);
  return (await answer.json()).token;
}
