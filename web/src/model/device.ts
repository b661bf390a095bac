/** Which device this tab is: every tab counts as one, and stays the same one over a reload. */

const KEY = "heartline.device_id";

/**
 * This tab's device. A tab that was duplicated brings its original's id with it, and two sockets of
 * one device would replace each other for ever: whoever finds the id taken takes another.
 */
export async function claimDevice(): Promise<string> {
  const kept = sessionStorage.getItem(KEY);
  if (kept !== null && (await isFree(kept))) return kept;
  const device_id = `tab-${crypto.getRandomValues(new Uint32Array(1))[0]?.toString(36)}`;
  sessionStorage.setItem(KEY, device_id);
  await isFree(device_id);
  return device_id;
}

/** Takes the id for as long as this tab lives, if nobody else has it. */
function isFree(device_id: string): Promise<boolean> {
  // Pages that came over plain HTTP from another machine have no locks; they take their chance.
  if (!("locks" in navigator)) return Promise.resolve(true);
  return new Promise((resolve) => {
    const held = (lock: Lock | null) => {
      resolve(lock !== null);
      return lock === null ? undefined : new Promise<void>(() => {});
    };
    const request = navigator.locks.request(`${KEY}:${device_id}`, { ifAvailable: true }, held);
    request.catch(() => resolve(true));
  });
}
