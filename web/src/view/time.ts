/** Formats times. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Created once, because creating a format is slow and a long chat shows hundreds of times. */
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

/** A time as its distance from now. */
export function ago(timestamp: string): string {
  const passed = Date.now() - Date.parse(timestamp);
  if (passed < MINUTE) return "just now";
  if (passed < HOUR) return `${Math.floor(passed / MINUTE)} min ago`;
  if (passed < DAY) return `${Math.floor(passed / HOUR)} h ago`;
  return `${Math.floor(passed / DAY)} d ago`;
}

/** The remaining time of a lease. */
export function leaseText(ends_at: string): string {
  const seconds = Math.ceil((Date.parse(ends_at) - Date.now()) / 1000);
  return seconds > 0 ? `${seconds} s left` : "has ended";
}

/** The time of day. */
export function clock(moment: string | Date): string {
  return CLOCK.format(new Date(moment));
}

/** The time of day, to the second. */
export function clockWithSeconds(moment: Date): string {
  return moment.toLocaleTimeString("en-GB");
}

/** The day as text. */
export function day(timestamp: string): string {
  const date = new Date(timestamp);
  const isOf = (moment: Date) => date.toDateString() === moment.toDateString();
  if (isOf(new Date())) return "Today";
  if (isOf(new Date(Date.now() - DAY))) return "Yesterday";
  return date.toLocaleDateString(undefined, { weekday: "long", day: "numeric", month: "long" });
}
