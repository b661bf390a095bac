/** Chance that can be repeated. */

/** Numbers from 0 up to 1 that follow from a seed. */
export class Random {
  #state: number;

  constructor(readonly seed: number) {
    this.#state = seed >>> 0;
  }

  /** The next number. */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  }

  /** A whole number from the first up to and without the second. */
  between(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from));
  }

  /** One of these. */
  pick<T>(all: readonly T[]): T {
    return all[this.between(0, all.length)] as T;
  }
}
