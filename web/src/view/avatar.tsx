/** Somebody's first letter on a colour that is always theirs. */

/** Colours on which white can be read; the style sheet names them. */
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
