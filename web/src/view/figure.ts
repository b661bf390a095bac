/** Formats numbers. */

/** A number with few digits. */
export function figure(value: number): string {
  if (value >= 10_000) return Intl.NumberFormat("en", { notation: "compact" }).format(value);
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

/** A number of bytes. */
export function bytes(value: number): string {
  if (value < 1024) return `${Math.round(value)} B`;
  if (value < 1024 * 1024) return `${(value / 1024).toFixed(1)} KiB`;
  return `${(value / 1024 / 1024).toFixed(1)} MiB`;
}
