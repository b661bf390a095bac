/** The text of typing indicators. */

/** The sentence; more than two users are counted instead of named. */
export function typingText(user_ids: readonly string[]): string {
  const [first, second] = user_ids;
  if (user_ids.length > 2) return `${user_ids.length} people are typing…`;
  return second === undefined ? `${first} is typing…` : `${first} and ${second} are typing…`;
}
