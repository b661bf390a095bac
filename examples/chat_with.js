import { setTimeout } from "node:timers/promises";
import { RefusedError } from "heartline";

/**
 * Returns the direct chat with a user. Repeated requests return the same chat, so the function retries
 * while the server is busy or cannot be reached.
 *
 * @param {import("heartline").Client} client
 * @param {string} user_id the other user
 */
export async function chatWith(client, user_id) {
  for (;;) {
    try {
      const { chat_id } = await client.rest.createChat({ type: "direct", member_ids: [user_id] });
      return client.chat(chat_id);
    } catch (error) {
      if (error instanceof RefusedError && !error.retryable) throw error;
      await setTimeout(1000);
    }
  }
}
