/** What went wrong, where it stands alone. */

/** A reason as a sentence: servers and libraries write theirs to follow a colon. */
export function sentence(reason: string): string {
  const end = /[.!?]$/.test(reason) ? "" : ".";
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}${end}`;
}
