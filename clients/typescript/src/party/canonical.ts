/**
 * The one text of a JSON value, for hashes that a server and a browser compute alike: members
 * sorted by their names, those that are null left out at every depth, nothing between the tokens,
 * numbers and strings as `JSON.stringify` writes them.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) {
    return `[${value.map(canonicalJson).join(",")}]`;
  }
  if (typeof value !== "object" || value === null) {
    return JSON.stringify(value ?? null);
  }
  const members = value as Record<string, unknown>;
  const present = Object.keys(members).filter((name) => (members[name] ?? null) !== null);
  // Without a comparison of its own, `sort` compares UTF-16 code units.
  const sorted = present.sort();
  const written = sorted.map((name) => `${JSON.stringify(name)}:${canonicalJson(members[name])}`);
  return `{${written.join(",")}}`;
}
