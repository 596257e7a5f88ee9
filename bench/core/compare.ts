import { systems } from "../systems/index.ts";
import type { Row } from "./types.ts";

// For every other unit less is better: ms, MB, % of a core, statements.
const moreIsBetter = new Set(["jobs/s", "commits/s", "%"]);

/** How many times as good `row` is as `other`: above 1, `row` is the better one. */
export function timesAsGood(row: Row, other: Row): number {
  return moreIsBetter.has(row.unit) ? row.median / other.median : other.median / row.median;
}

/** The variant without the Node version, so that Stint on Node 24 is compared with the peers, which run on Node 24. */
export function withoutNode(variant: string): string {
  return variant.replace(", node 24", "");
}

/** The rows that Stint's default is compared with, among the rows of one variant and unit. */
export type Against = {
  readonly stint: Row | undefined;
  readonly bestPostgres: Row | undefined;
  readonly bestRedis: Row | undefined;
  readonly ceiling: Row | undefined;
};

export function compare(rows: readonly Row[]): Against {
  const of = (role: string): Row | undefined => {
    const names = new Set<string>(systems.filter((one) => one.role === role).map((one) => one.name));
    return rows
      .filter((row) => names.has(row.system))
      .reduce<Row | undefined>(
        (best, row) => (best === undefined || timesAsGood(row, best) > 1 ? row : best),
        undefined,
      );
  };
  return {
    stint: rows.find(
      (row) => row.system === "stint" && row.config === "default" && row.variant === withoutNode(row.variant),
    ),
    bestPostgres: of("postgres"),
    bestRedis: of("redis"),
    ceiling: of("ceiling"),
  };
}
