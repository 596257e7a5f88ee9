import { withoutNode } from "../core/compare.ts";
import type { Row } from "../core/types.ts";
import type { Bar } from "./chart.ts";

/** What a bar says otherwise than its row would have it. */
export type BarWords = { label?: string; pale?: boolean; /** Stands behind the value. */ more?: string };

/** One row as a bar, under the name of its system unless it is given another. */
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

/** For people: no more digits than mean something. */
export function amount(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: value < 100 ? 2 : 3 });
}

/** Ours is the default one. */
function isPale(system: string, config: string, variant: string): boolean {
  return system === "stint" ? variant !== withoutNode(variant) : config === "default";
}

function nameOf({ system, config, variant }: Row): string {
  if (system === "ceiling") return "bare SQL (the ceiling)";
  return `${system} ${config}${variant === withoutNode(variant) ? "" : ", node 24"}`;
}
