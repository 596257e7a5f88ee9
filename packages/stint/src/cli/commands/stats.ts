import type { Command } from "commander";
import type { Depth, Stats, WaitingTenants } from "../../inspect/types.ts";
import { formatCount } from "../../model/figures.ts";
import { examples, runs } from "../command.ts";
import { depthColumns } from "../depth-columns.ts";
import { count, duration, rate } from "../figures.ts";
import { inspecting } from "../inspecting.ts";
import { paint, say, type Output } from "../output.ts";
import { pairs, table, type Column } from "../table.ts";

export function addStats(program: Command): void {
  const command = program.command("stats").summary("totals, rates and the last hour");
  command.description(
    "Totals, rates of the last minute, the last hour, and depths by queue, kind, priority and tenant.\n" +
      "It reads tallies, and at most the next 10,000 ready jobs for their tenants, so a monitor may call it.",
  );
  examples(command, "stint stats", "stint stats --json | jq .total.ready");
  runs(command, async (context) => {
    const [stats, waiting] = await inspecting(
      context,
      async (inspector) => await Promise.all([inspector.stats(), inspector.waitingTenants()]),
    );
    if (context.out.json) return context.out.document({ ...stats, waitingTenants: waiting });
    showStats(context.out, stats);
    showWaiting(context.out, waiting);
  });
}

export function showStats(out: Output, stats: Stats): void {
  const { total, rates, lastHour } = stats;
  pairs(out, [
    ["Now", depthText(total)],
    ["Rates", `${rate(rates.arrived)} arrived, ${rate(rates.claimed)} claimed, ${rate(rates.ended)} ended`],
    [
      "Last hour",
      `${formatCount(lastHour.arrived)} arrived, ${formatCount(lastHour.succeeded)} succeeded, ${formatCount(lastHour.failed)} failed, ${formatCount(lastHour.retried)} retried`,
    ],
    [
      "",
      `${formatCount(lastHour.dead)} dead, ${formatCount(lastHour.cancelled)} cancelled, ${formatCount(lastHour.rescued)} rescued`,
    ],
    ["Queue time", percentilesText(lastHour.wait)],
    ["Run time", percentilesText(lastHour.run)],
  ]);
  section(out, "BY QUEUE", [{ title: "QUEUE", cell: (row) => row.queue }, ...depthColumns], stats.byQueue);
  section(
    out,
    "BY KIND",
    [
      { title: "KIND", cell: (row) => row.kind },
      { title: "QUEUE", cell: (row) => row.queue, most: 32 },
      ...depthColumns,
    ],
    stats.byKind,
  );
  // A queue with a single priority is already shown by queue.
  const several = stats.byPriority.filter(
    ({ queue }) => stats.byPriority.filter((other) => other.queue === queue).length > 1,
  );
  section(
    out,
    "BY PRIORITY",
    [
      { title: "QUEUE", cell: (row) => row.queue },
      { title: "PRIORITY", cell: (row) => row.priority, align: "right" },
      ...depthColumns,
    ],
    several,
  );
  section(
    out,
    "BUSIEST TENANTS, LAST HOUR",
    [
      { title: "TENANT", cell: (row) => row.tenant, most: 60 },
      { title: "ATTEMPTS ENDED", cell: (row) => formatCount(row.ended), align: "right" },
      { title: "RUN TIME", cell: (row) => duration(row.runMs), align: "right" },
    ],
    stats.topTenants,
  );
}

function showWaiting(out: Output, { tenants, of }: WaitingTenants): void {
  section(
    out,
    `WAITING TENANTS, AMONG THE ${of.capped ? "NEXT " : ""}${formatCount(of.count)} READY`,
    [
      { title: "TENANT", cell: (row) => row.tenant, most: 60 },
      { title: "READY", cell: (row) => count(row.ready, "blue"), align: "right" },
    ],
    tenants,
  );
}

function section<Row>(
  out: Output,
  title: string,
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): void {
  if (rows.length === 0) return;
  out.line(say``);
  out.line(say`${paint("bold", title)}`);
  table(out, columns, rows);
}

function depthText(depth: Depth): string {
  return (["ready", "running", "retrying", "scheduled", "parked", "dead"] as const)
    .map((state) => `${formatCount(depth[state])} ${state}`)
    .join(", ");
}

function percentilesText({ p50, p95, p99 }: Stats["lastHour"]["run"]): string {
  if (p50 === null) return "no attempt ended";
  return `p50 ${duration(p50)}, p95 ${duration(p95)}, p99 ${duration(p99)}`;
}
