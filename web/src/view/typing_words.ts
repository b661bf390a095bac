/** Who is typing, in words. */

/** The sentence; more than two are not named, because nobody reads that many. */
export function typingWords(user_ids: readonly string[]): string {
  const [first, second] = user_ids;
  if (user_ids.length > 2) return `${user_ids.length} people are typing…`;
  return second === undefined ? `${first} is typing…` : `${first} and ${second} are typing…`;
}
