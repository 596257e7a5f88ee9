import type { Depth } from "stint/inspect";
import type { Column } from "../../components/rows.tsx";
import { number } from "../../format.ts";

type Counted = { readonly depth: Depth };

/** Counts by state that link to no list. */
export const readyColumn: Column<Counted> = plain("Ready", ({ ready }) => ready);
export const runningColumn: Column<Counted> = plain("Running", ({ running }) => running);

export const deadColumn: Column<Counted> = {
  ...plain("Dead", ({ dead }) => dead),
  cell: ({ depth }) => <span className={depth.dead > 0 ? "bad" : "muted"}>{number(depth.dead)}</span>,
};

function plain(title: string, count: (depth: Depth) => number): Column<Counted> {
  return {
    title,
    number: true,
    sort: ({ depth }) => count(depth),
    cell: ({ depth }) => number(count(depth)),
  };
}
