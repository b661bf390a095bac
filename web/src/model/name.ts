/** What people can be called. */

/** What the server takes as a user id. */
const PATTERN = /^[\w.@|:+-]*$/;
const LENGTH_MAX = 128;

/** Why this cannot be a name, in words; undefined if it can. */
export function refusalOf(name: string): string | undefined {
  if (name === "") return "nobody has an empty name";
  if (name.length > LENGTH_MAX) return `a name has at most ${LENGTH_MAX} characters`;
  if (PATTERN.test(name)) return undefined;
  const rule = "letters, digits and _ . @ | : + - can be in one, spaces and accents cannot";
  return `“${name}” cannot be a name: ${rule}`;
}

/** Refuses what cannot be a name before the server does, whose words are for programmers. */
export function demandName(name: string): void {
  const refusal = refusalOf(name);
  if (refusal !== undefined) throw new Error(refusal);
}
