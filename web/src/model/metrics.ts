/** Reads the server's metrics: OpenMetrics text, and rates from counters. */

/** A sample: labels as they are written, and the value. */
export interface Sample {
  labels: string;
  value: number;
}

/** One reading of every metric. */
export class Metrics {
  readonly #samples = new Map<string, Sample[]>();

  constructor(
    text: string,
    /** When it was read, in milliseconds of the page. */
    readonly at: number,
  ) {
    for (const line of text.split("\n")) {
      const found = /^([a-zA-Z_:][\w:]*)(\{[^}]*\})?\s+(\S+)/.exec(line);
      if (found === null) continue;
      const [, name = "", labels = "", value = ""] = found;
      const samples = this.#samples.get(name) ?? [];
      samples.push({ labels, value: Number(value) });
      this.#samples.set(name, samples);
    }
  }

  /** The value of a metric, summed over its labels; zero if it is absent. */
  value(name: string): number {
    return (this.#samples.get(name) ?? []).reduce((sum, sample) => sum + sample.value, 0);
  }

  /** Whether the server exports this metric. */
  has(name: string): boolean {
    return this.#samples.has(name);
  }
}

/** The increase of a counter per second. After a restart of the server counters begin at zero. */
export function rate(name: string, before: Metrics, after: Metrics): number {
  const seconds = (after.at - before.at) / 1000;
  const rise = after.value(name) - before.value(name);
  return seconds > 0 ? Math.max(0, rise) / seconds : 0;
}
