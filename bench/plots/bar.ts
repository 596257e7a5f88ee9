import { withoutNode } from "../core/compare.ts";
import type { Row } from "../core/types.ts";
import type { Bar } from "./chart.ts";

/** Overrides for the label and look of a bar; the default comes from its row. */
export type BarWords = { label?: string; pale?: boolean; /** Printed after the value. */ more?: string };

/** One row as a bar, labelled with its system unless `label` is given. */
export function barOf(row: Row, words: BarWords = {}): Bar {
  const { system, config, median, min, max, unit } = row;
  const measure = unit === "%" || unit === "ms" ? ` ${unit}` : "";
  return {
    label: words.label ?? nameOf(row),
    system,
    value: median,
    min,
    max,
    text: `${amount(median)}${measure}${words.more ?? ""}`,
    pale: words.pale ?? isPale(system, config, row.variant),
  };
}

/** Rounded to the significant digits. */
export function amount(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: value < 100 ? 2 : 3 });
}

/** Paler bars: the peers' default configs, and Stint on Node 24. */
function isPale(system: string, config: string, variant: string): boolean {
  return system === "stint" ? variant !== withoutNode(variant) : config === "default";
}

function nameOf({ system, config, variant }: Row): string {
  if (system === "ceiling") return "bare SQL (the ceiling)";
  return `${system} ${config}${variant === withoutNode(variant) ? "" : ", node 24"}`;
}
