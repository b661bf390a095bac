/** The device id of this tab: every tab is a device, and keeps its id over a reload. */

const KEY = "heartline.device_id";

/**
 * Returns this tab's device id. A duplicated tab starts with the id of its original, and two
 * connections with one id would replace each other forever, so a tab whose id is in use takes a new
 * one.
 */
export async function claimDevice(): Promise<string> {
  const kept = sessionStorage.getItem(KEY);
  if (kept !== null && (await isFree(kept))) return kept;
  const device_id = `tab-${crypto.getRandomValues(new Uint32Array(1))[0]?.toString(36)}`;
  sessionStorage.setItem(KEY, device_id);
  await isFree(device_id);
  return device_id;
}

/** Locks the id while this tab is open, if no other tab has it. */
function isFree(device_id: string): Promise<boolean> {
  // Pages loaded over plain HTTP from another machine have no locks; they use the id unlocked.
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
