/** Somebody who does not stop talking, so that whatever happens happens in mid-sentence. */
import { expect } from "vitest";
import { eventually, passes } from "./eventually.js";
import { type User, isGapFree } from "./user.js";

/** Messages that may be without an answer: a slow machine should not be given more and more. */
const UNANSWERED_MAX = 40;

/** A stream of numbered messages of one user into one chat. */
export class Stream {
  readonly #answers: Promise<unknown>[] = [];
  readonly #words: string[] = [];
  #isOver = false;
  #unanswered = 0;
  readonly #run: Promise<void>;

  constructor(
    readonly sender: User,
    readonly chat_id: string,
    intervalMs = 25,
  ) {
    this.#run = this.#talk(intervalMs);
  }

  /** How many messages were given to the client so far. */
  get count(): number {
    return this.#words.length;
  }

  /** Ends it, and waits until every message is acknowledged. */
  async end(): Promise<string[]> {
    this.#isOver = true;
    await this.#run;
    await Promise.all(this.#answers);
    return this.#words;
  }

  /** Ends it, and holds what was said against what each of these applications was told. */
  async isHeardBy(...users: User[]): Promise<void> {
    const words = await this.end();
    for (const user of users) {
      const heard = () => user.in(this.chat_id);
      await eventually(
        `${user.user_id} hears ${words.length}, so far ${heard().length}`,
        () => heard().length >= words.length,
      );
      // Whatever came twice would have come by now or just after.
      await passes(300);
      expect(isGapFree(heard())).toBe(true);
      expect(heard().map((message) => message.content)).toEqual(words);
    }
  }

  async #talk(intervalMs: number): Promise<void> {
    while (!this.#isOver) {
      await passes(intervalMs);
      if (this.#unanswered >= UNANSWERED_MAX) continue;
      const word = `word ${this.#words.length}`;
      this.#words.push(word);
      const answer = this.sender.client.chat(this.chat_id).send(word);
      this.#unanswered += 1;
      const answered = () => void (this.#unanswered -= 1);
      // It is waited for at the end; until then nobody may call it unhandled.
      answer.then(answered, answered);
      this.#answers.push(answer);
    }
  }
}
