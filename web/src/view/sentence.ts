/** Error messages as sentences. */

/** Turns a message that is written to follow a colon into a sentence. */
export function sentence(reason: string): string {
  const end = /[.!?]$/.test(reason) ? "" : ".";
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}${end}`;
}
