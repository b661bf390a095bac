/** Whether somebody is online: three marks that differ by shape, and say what they mean. */
import type { Presence } from "heartline";
import { ago } from "./time.js";

/** The mark. */
export function PresenceMark({ presence }: { presence: Presence }) {
  const words = presenceWords(presence);
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

/** What is known, in words. */
export function presenceWords(presence: Presence): string {
  switch (presence.status) {
    case "online":
      return "online";
    case "offline":
      return presence.last_seen === undefined
        ? "offline"
        : `offline, last seen ${ago(presence.last_seen)}`;
    case "unknown":
      return presence.stale === true ? "cannot be told at the moment" : "unknown";
  }
}
