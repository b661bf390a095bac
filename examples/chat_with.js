import { setTimeout } from "node:timers/promises";
import { RefusedError } from "heartline";

/**
 * The chat of two. It is made once, however often it is asked for, so asking again is safe: a
 * server that is busy or away for a moment is no reason to give up.
 *
 * @param {import("heartline").Client} client
 * @param {string} user_id the other one
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
