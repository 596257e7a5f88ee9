import type { Cell, Measurement } from "./scenario.ts";
import { median } from "./stats.ts";
import type { Row } from "./types.ts";

/** Values of all rounds grouped by measurement, in the order of first appearance. */
export class Collected {
  readonly #values = new Map<string, { row: Omit<Row, "median" | "min" | "max" | "n">; values: number[] }>();

  add(scenario: string, { system, config, variant }: Cell, measured: readonly Measurement[]): void {
    for (const { suffix, unit, value } of measured) {
      const name = suffix === undefined ? variant.name : `${variant.name} ${suffix}`;
      const key = JSON.stringify([scenario, name, system, config, unit]);
      const row = { scenario, variant: name, system, config, unit };
      const entry = this.#values.get(key) ?? { row, values: [] };
      entry.values.push(value);
      this.#values.set(key, entry);
    }
  }

  rows(): Row[] {
    return [...this.#values.values()].map(({ row, values }) =>
      Object.assign({}, row, {
        median: round(median(values)),
        min: round(Math.min(...values)),
        max: round(Math.max(...values)),
        n: values.length,
      }),
    );
  }
}

/** Four digits: further digits would be noise. */
function round(value: number): number {
  return Number(value.toPrecision(4));
}
