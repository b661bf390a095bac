/** Waiting for what will be so. */

/** Asks again and again until the answer is what it should be; fails with the last answer. */
export async function eventually<T>(
  ask: () => Promise<T>,
  isIt: (answer: T) => boolean,
  timeoutMs = 15_000,
): Promise<T> {
  const until = Date.now() + timeoutMs;
  for (;;) {
    const answer = await ask();
    if (isIt(answer)) return answer;
    if (Date.now() > until) throw new Error(`still ${JSON.stringify(answer)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
