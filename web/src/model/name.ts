/** The rules for user names. */

/** The user ids that the server accepts. */
const PATTERN = /^[\w.@|:+-]*$/;
const LENGTH_MAX = 128;

/** Why a name is invalid; undefined if it is valid. */
export function nameError(name: string): string | undefined {
  if (name === "") return "the name is empty";
  if (name.length > LENGTH_MAX) return `a name has at most ${LENGTH_MAX} characters`;
  if (PATTERN.test(name)) return undefined;
  const rule = "use letters, digits and _ . @ | : + -, without spaces or accents";
  return `“${name}” is not a valid name: ${rule}`;
}

/** Throws for an invalid name, with a message for users; the server's is for programmers. */
export function requireValidName(name: string): void {
  const refusal = nameError(name);
  if (refusal !== undefined) throw new Error(refusal);
}
