/** The first letter of a name, on a colour derived from the name. */

/** The number of background colours, defined in the style sheet. */
const TINTS = 8;

/** The letter. */
export function Avatar({ name }: { name: string }) {
  let hash = 0;
  for (const character of name) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) % 9973;
  return (
    <span class="avatar" data-tint={hash % TINTS} aria-hidden="true">
      {[...name][0]?.toUpperCase() ?? "?"}
    </span>
  );
}
