import type { Command } from "commander";
import { drawFlow } from "../../model/flow-graph.ts";
import { plural } from "../../model/figures.ts";
import type { FlowPart, FlowSummary, FlowView } from "../../sql/flows.ts";
import { examples, runs } from "../command.ts";
import { duration } from "../figures.ts";
import { paint, say, type Output, type Piece, type Style } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { table, type Column } from "../table.ts";
import { toInteger } from "../values.ts";

export function addFlows(program: Command): void {
  const flows = program.command("flows").summary("chains, flows and batches");
  flows.description("Chains, flows and batches: running and stuck ones, and what they wait for.");
  addList(flows);
  addShow(flows);
  addCancel(flows);
}

type ListFlags = { live?: boolean; limit: string };

function addList(flows: Command): void {
  const command = flows
    .command("list", { isDefault: true })
    .description("Flows, newest first: their age, how many parts have ended, and which are stuck.")
    .option("--live", "only flows with parts that have not ended")
    .option("--limit <count>", "how many, at most 200", "50");
  examples(command, "stint flows list --live", "stint flows list --json");
  runs<ListFlags>(command, async (context, { options }) => {
    const client = await context.client();
    const found = await client.flows.list({
      live: options.live === true,
      limit: toInteger(options.limit, "--limit"),
    });
    if (context.out.json) return context.out.document({ flows: found });
    if (found.length === 0) return context.out.note(say`There are no flows.`);
    table(context.out, columns, found);
  });
}

const columns: readonly Column<FlowSummary>[] = [
  { title: "FLOW", cell: ({ id }) => id },
  { title: "NAME", cell: ({ name }) => name ?? "", most: 40 },
  { title: "STATUS", cell: ({ state }) => paint(styles[state] ?? "reset", state) },
  { title: "AGE", align: "right", cell: (flow) => duration(ageOf(flow)) },
  { title: "PARTS", align: "right", cell: ({ parts }) => String(parts) },
  { title: "SUCCEEDED", align: "right", cell: ({ succeeded }) => String(succeeded) },
  { title: "BLOCKED", align: "right", cell: ({ blocked }) => String(blocked), leaves: 1 },
  { title: "DEAD", align: "right", cell: ({ dead }) => String(dead) },
];

function ageOf({ createdAt, endedAt }: FlowSummary): number {
  return (endedAt ?? new Date()).getTime() - createdAt.getTime();
}

const styles: Readonly<Record<string, Style>> = {
  running: "green",
  stuck: "red",
  failed: "red",
  dead: "red",
  stopped: "yellow",
  compensating: "yellow",
  cancelled: "dim",
  parked: "yellow",
};

function addShow(flows: Command): void {
  const command = flows
    .command("show <id>")
    .description("One flow, by its id or by that of any of its jobs, drawn as a graph: what waits for what.");
  examples(command, "stint flows show 0197a1b2-…");
  runs(command, async (context, { args: [id = ""] }) => {
    const flow = await (await context.client()).flows.get(id);
    if (flow === undefined) throw new UsageError(`There is no flow ${id}, and no job ${id} is part of one`);
    if (context.out.json) return context.out.document(flow);
    show(context.out, flow);
  });
}

function show(out: Output, flow: FlowView): void {
  const { id, name, state, parts, succeeded, reason } = flow;
  const title = name === null ? id : `${name} ${id}`;
  out.line(
    say`${title}  ${paint(styles[state] ?? "reset", state)}  ${String(succeeded)} of ${plural(parts, "part")} succeeded  ${duration(ageOf(flow))}`,
  );
  if (reason !== null) out.line(say`Stopped: ${reason}`);
  for (const { part, branch, also } of drawFlow(flow.jobs)) {
    const others = also.length === 0 ? "" : `  also after ${also.map(nameOf).join(", ")}`;
    out.line(
      say`${branch}${mark(part)} ${nameOf(part)}  ${stateText(part)}  ${paint("dim", part.id)}${others}`,
    );
    const why = part.refused ?? (part.state === "succeeded" ? null : part.reason);
    if (why !== null) out.line(say`${" ".repeat(branch.length + 2)}${paint("dim", why)}`);
  }
  if (flow.jobs.length < parts) out.note(say`Only the first ${String(flow.jobs.length)} parts are shown.`);
}

function nameOf({ name, kind }: FlowPart): string {
  return name === null || name === kind ? kind : `${name} (${kind})`;
}

function mark({ state }: FlowPart): string {
  if (state === "succeeded") return "✓";
  if (state === "dead" || state === "cancelled") return "✗";
  return state === "running" ? "●" : "○";
}

function stateText({ state, parkReason }: FlowPart): Piece {
  return paint(styles[state] ?? "reset", state === "parked" ? (parkReason ?? state) : state);
}

type CancelFlags = { reason: string };

function addCancel(flows: Command): void {
  const command = flows
    .command("cancel <id>")
    .description(
      "Cancel a flow: no part of it starts any more, running parts are asked to stop, and its compensations run.",
    )
    .requiredOption("--reason <text>", "why, for the audit");
  examples(command, 'stint flows cancel 0197a1b2-… --reason "the customer cancelled"');
  runs<CancelFlags>(command, async (context, { options, args: [id = ""] }) => {
    const count = await (await context.client()).flows.cancel(id, { reason: options.reason });
    if (context.out.json) return context.out.document({ cancelled: count });
    context.out.line(say`${plural(count, "part")} cancelled or asked to stop.`);
  });
}
