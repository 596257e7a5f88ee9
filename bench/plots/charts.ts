import { timesAsGood, withoutNode } from "../core/compare.ts";
import type { Results, Row } from "../core/types.ts";
import type { Chart, Group } from "./chart.ts";
import { horizonChart } from "./horizon.ts";
import { amount, barOf } from "./bar.ts";

/** Every plot for which there are figures. Each group shows all its bars, best first, including those faster than Stint. */
export function chartsOf({ rows }: Results): Chart[] {
  const of = (scenario: string, matches: (row: Row) => boolean): Row[] =>
    rows.filter((row) => row.scenario === scenario && Number.isFinite(row.median) && matches(row));
  const isRate = (row: Row): boolean => row.unit === "jobs/s";
  const isWholeDrain = (row: Row): boolean => isRate(row) && !/ (first tenth|the rest)/.test(row.variant);
  const isTime = (row: Row): boolean => row.unit === "ms";
  const charts: Chart[] = [
    {
      name: "drain",
      title: "Draining a queue",
      panels: [
        {
          heading: "jobs/s until the store reports that nothing is pending; longer is better",
          scale: "linear",
          groups: groupsOf(of("drain", isWholeDrain)),
        },
      ],
    },
    {
      name: "enqueue",
      title: "Enqueueing",
      panels: [
        {
          heading:
            "jobs/s of callers that each await their own enqueue, and in bulk; longer is better; logarithmic",
          scale: "log",
          groups: groupsOf(of("enqueue", isRate)),
        },
        {
          heading: "jobs/s, each in a transaction of the caller's own; longer is better",
          scale: "linear",
          groups: groupsOf(of("enqueue-tx", isRate)),
        },
      ],
    },
    {
      name: "latency",
      title: "From the enqueue to the start of the handler",
      panels: [
        {
          heading: "ms on an idle queue; shorter is better; logarithmic",
          scale: "log",
          groups: groupsOf(of("pickup", isTime)),
        },
        {
          heading:
            "ms at a steady rate of single enqueues, from the intended time; shorter is better; logarithmic",
          scale: "log",
          groups: groupsOf(of("sustained", isTime)),
        },
      ],
    },
    {
      name: "growth",
      title: "Draining, with many other jobs in the store",
      panels: [
        {
          heading: "% of the rate with an empty store, measured within the same minute; longer is better",
          scale: "linear",
          line: 100,
          groups: growthGroups(of("growth", () => true)),
        },
      ],
    },
    horizonChart(of("horizon", () => true)),
  ];
  return charts.filter((chart) => chart.panels.some((panel) => panel.groups.length > 0));
}

/** A group per variant, best first. `more` is printed after each value. */
function groupsOf(rows: readonly Row[], more: (row: Row) => string = () => ""): Group[] {
  const variants = [...new Set(rows.map((row) => withoutNode(row.variant)))];
  return variants.map((variant) => ({
    heading: variant.replace(share, ""),
    bars: rows
      .filter((row) => withoutNode(row.variant) === variant)
      .toSorted((a, b) => timesAsGood(b, a) - timesAsGood(a, b))
      .map((row) => barOf(row, { more: more(row) })),
  }));
}

const share = " of empty";

function growthGroups(rows: readonly Row[]): Group[] {
  const rates = rows.filter((row) => row.unit === "jobs/s");
  return groupsOf(
    rows.filter((row) => row.unit === "%"),
    ({ system, variant }) => {
      const rate = rates.find((row) => row.system === system && row.variant === variant.replace(share, ""));
      return rate === undefined ? "" : ` (${amount(rate.median)} jobs/s)`;
    },
  );
}
