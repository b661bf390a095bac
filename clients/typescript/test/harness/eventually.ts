/** Waiting for what must become true. */
import { PATIENCE_MS } from "./process.js";

/** Lets so much time pass. */
export async function passes(milliseconds: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Asks until the answer is neither false nor undefined, and gives that answer. */
export async function eventually<T>(
  what: string,
  ask: () => T | undefined | false | Promise<T | undefined | false>,
  patienceMs: number = PATIENCE_MS,
): Promise<T> {
  const end = Date.now() + patienceMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== false) return answer;
    if (Date.now() > end) throw new Error(`in ${patienceMs} ms it did not happen: ${what}`);
    await passes(10);
  }
}
