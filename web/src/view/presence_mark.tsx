/** The presence marks, which differ by shape and have a text. */
import type { Presence } from "heartline";
import { ago } from "./time.js";

/** The mark. */
export function PresenceMark({ presence }: { presence: Presence }) {
  const words = presenceText(presence);
  return (
    <span
      class="presence"
      data-status={presence.status}
      role="img"
      aria-label={words}
      title={words}
    />
  );
}

/** The presence as text. */
export function presenceText(presence: Presence): string {
  switch (presence.status) {
    case "online":
      return "online";
    case "offline":
      return presence.last_seen === undefined
        ? "offline"
        : `offline, last seen ${ago(presence.last_seen)}`;
    case "unknown":
      return presence.stale === true ? "not known at the moment" : "unknown";
  }
}
