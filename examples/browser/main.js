import { Client, IndexedDbStorage, RefusedError } from "heartline";

const query = new URLSearchParams(location.search);
const me = query.get("me") ?? "ana";
const other = query.get("with") ?? "bo";

const client = new Client({
  url: "http://127.0.0.1:7400",
  token: async () => {
    const answer = await fetch(`/token?user=${encodeURIComponent(me)}`);
    if (!answer.ok) throw new Error(`no token: ${answer.status}`);
    return await answer.text();
  },
  storage: new IndexedDbStorage({ user_id: me }),
  backlog: "all",
});
client.onState((state) => {
  document.getElementById("state")?.replaceChildren(client.stop_reason ?? state);
});
await client.connect();

const chat = client.chat(await chatWith(other));
chat.onMessage(({ sender_id, content }) => void show("messages", `${sender_id}: ${content}`));

const form = /** @type {HTMLFormElement} */ (document.getElementById("form"));
form.querySelector("button")?.removeAttribute("disabled");
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const content = String(new FormData(form).get("content"));
  const line = show("waiting", content);
  chat.send(content).then(
    () => line.remove(),
    (error) => line.append(` (not sent: ${error.code})`),
  );
  form.reset();
});

/** @param {string} list @param {string} text */
function show(list, text) {
  const line = document.createElement("li");
  line.textContent = text;
  document.getElementById(list)?.append(line);
  return line;
}

/**
 * Returns the direct chat with a user. Repeated requests return the same chat: a retry is safe.
 *
 * @param {string} user_id
 * @returns {Promise<string>}
 */
async function chatWith(user_id) {
  for (;;) {
    try {
      return (await client.rest.createChat({ type: "direct", member_ids: [user_id] })).chat_id;
    } catch (error) {
      if (error instanceof RefusedError && !error.retryable) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}
