import type { DeadGroups, KindView, QueueHealth, SlowJob } from "../../inspect/types.ts";
import { command } from "../../model/command.ts";
import { formatCount, plural } from "../../model/figures.ts";
import { deadGroupColumns, leftOut } from "../dead-groups.ts";
import { count, duration, finishedMinutes, lateIn, percent, rate, slotsText, sparkline } from "../figures.ts";
import { paint, safe, type Painted, type Piece } from "../output.ts";
import { cut, tableLines, type Column, type Paper } from "../table.ts";
import { workerColumns } from "../worker-text.ts";
import type { Snapshot } from "./snapshot.ts";
import type { View } from "./view.ts";

export type Size = { readonly columns: number; readonly rows: number };

export type Frame = {
  readonly lines: readonly string[];
  /** The names of the selectable rows, in order. */
  readonly rows: readonly string[];
};

/** Further data of a frame. */
export type Surroundings = {
  readonly schema: string;
  /** Why the figures are not fresh. */
  readonly problem: string | undefined;
};

/** The whole screen as lines, at most as many as it has rows. */
export function draw(given: Paper, snapshot: Snapshot, view: View, size: Size, about: Surroundings): Frame {
  const paper = { ...given, hard: true };
  const show = (line: readonly Piece[]): string => lineOf(paper, line, size.columns);
  const head = [show(headline(snapshot, view, about)), ""];
  const foot = ["", ...footer(snapshot, view, about).map(show)];
  const room = Math.max(1, size.rows - head.length - foot.length);
  const { lines, rows } = body(paper, snapshot, view, room, about);
  const filled = [...lines, ...Array.from({ length: Math.max(0, room - lines.length) }, () => "")];
  return { lines: [...head, ...filled.slice(0, room), ...foot].slice(0, size.rows), rows };
}

/** Queues and warnings as plain lines, for output that is not a terminal. */
export function drawOnce(paper: Paper, { health }: Snapshot): string[] {
  const lines =
    health.queues.length === 0 ? [] : tableLines(paper, queueColumns(health.at, paper.width), health.queues);
  return [lineOf(paper, totals(health), Number.POSITIVE_INFINITY), "", ...lines];
}

/** A line of text, cut at the width of the terminal. */
function plain({ width = Number.POSITIVE_INFINITY }: Paper, line: string): string {
  return cut(line, width);
}

type Body = { lines: string[]; rows: readonly string[] };

function body(paper: Paper, snapshot: Snapshot, view: View, room: number, about: Surroundings): Body {
  const { health, slow, workers, dead } = snapshot;
  switch (view.screen) {
    case "queues":
      return health.queues.length === 0
        ? { lines: [plain(paper, "No queue holds a job, and no worker serves one.")], rows: [] }
        : list(paper, view, room, {
            columns: queueColumns(health.at, paper.width),
            rows: health.queues,
            name: (one) => one.queue,
          });
    case "queue":
      return queueBody(paper, snapshot, view, room);
    case "dead":
      return dead.groups.length === 0
        ? { lines: [plain(paper, "No job is dead.")], rows: [] }
        : list(paper, view, room, {
            columns: deadColumns,
            rows: dead.groups,
            name: nameOfGroup,
          });
    case "workers":
      return workers.length === 0
        ? {
            lines: [
              plain(paper, `There is no live worker. Start one with ${command(about.schema, "worker")}`),
            ],
            rows: [],
          }
        : list(paper, view, room, { columns: workerColumns, rows: workers, name: (one) => one.id });
    case "slow":
      return slow.length === 0
        ? { lines: [plain(paper, "Every running job is within what is normal for its kind.")], rows: [] }
        : list(paper, view, room, {
            columns: slowColumns,
            rows: slow,
            name: (one) => `${one.kind} ${one.id}`,
          });
    case "help":
      return {
        lines: help.map(([key, text]) => plain(paper, `  ${key.padEnd(14)}${text}`)),
        rows: [],
      };
    default:
      return view.screen satisfies never;
  }
}

function queueBody(paper: Paper, { health, kinds, slow }: Snapshot, view: View, room: number): Body {
  const queue = health.queues.filter((one) => one.queue === view.queue);
  const own = kinds.filter((one) => one.queue === view.queue);
  const late = slow.filter((one) => one.queue === view.queue);
  const below =
    late.length === 0 ? [] : ["", "Slow jobs", ...tableLines(paper, slowColumns, late.slice(0, 5))];
  const above = [...tableLines(paper, queueColumns(health.at, paper.width), queue), ""];
  const left = Math.max(3, room - above.length - below.length);
  const middle = list(paper, view, left, { columns: kindColumns, rows: own, name: (one) => one.kind });
  return { lines: [...above, ...middle.lines, ...below], rows: middle.rows };
}

type Listed<Row> = { columns: readonly Column<Row>[]; rows: readonly Row[]; name: (row: Row) => string };

/** The rows that match the filter, and the selected one. */
function choose<Row>(
  view: View,
  rows: readonly Row[],
  name: (row: Row) => string,
): { kept: readonly Row[]; chosen: number } {
  const wanted = view.filter.toLowerCase();
  const kept = rows.filter((row) => name(row).toLowerCase().includes(wanted));
  return { kept, chosen: Math.min(view.cursor, Math.max(0, kept.length - 1)) };
}

/** A table scrolled so that the selected row is visible. */
function list<Row>(paper: Paper, view: View, room: number, { columns, rows, name }: Listed<Row>): Body {
  const { kept, chosen } = choose(view, rows, name);
  const height = Math.max(1, room - 1);
  const from = Math.max(0, Math.min(chosen - height + 1, kept.length - height));
  const first = Math.max(0, Math.min(from, kept.length));
  const seen = kept.slice(first, first + height);
  // A mark in addition to the colour.
  const marker: Column<Row> = {
    title: " ",
    cell: (row) => (row === kept[chosen] ? paint("bold", ">") : " "),
  };
  const lines =
    kept.length === 0
      ? [plain(paper, "Nothing fits the filter.")]
      : tableLines(paper, [marker, ...columns], seen);
  return { lines, rows: kept.map(name) };
}

function headline({ health }: Snapshot, view: View, { schema }: Surroundings): Piece[] {
  const title = view.screen === "queue" ? `queue ${view.queue ?? ""}` : view.screen;
  return [
    paint("bold", "stint top"),
    ` ${schema} · ${title} · ${health.at.toISOString().slice(11, 19)}Z`,
    ...(view.paused ? [" ", paint("inverse", " paused ")] : []),
    "  ",
    ...totals(health),
  ];
}

function totals({ total, queues, workers, slow, unserved }: Snapshot["health"]): Piece[] {
  const busy = queues.reduce((sum, one) => sum + one.slots.busy, 0);
  const slots = queues.reduce((sum, one) => sum + one.slots.total, 0);
  const parts: Piece[] = [
    `${plural(workers, "worker")}, ${formatCount(busy)}/${formatCount(slots)} slots busy, ${formatCount(total.ready)} ready, ${formatCount(total.running)} running`,
  ];
  if (total.dead > 0) parts.push(", ", paint("red", `${formatCount(total.dead)} dead`));
  if (slow > 0) parts.push(", ", paint("yellow", `${slow} slow`));
  if (unserved.length > 0)
    parts.push(", ", paint(["red", "bold"], `unserved: ${unserved.map((one) => one.kind).join(", ")}`));
  return parts;
}

function footer({ dead }: Snapshot, view: View, { schema, problem }: Surroundings): Piece[][] {
  const lines: Piece[][] = [];
  if (problem !== undefined) lines.push([paint(["red", "bold"], `Not fresh: ${problem}`)]);
  if (view.typing) lines.push([`Filter: ${view.filter}_`]);
  else if (view.filter !== "") lines.push([`Filter: ${view.filter} (Esc clears it)`]);
  if (view.screen === "dead") {
    const left = leftOut(dead);
    if (left !== undefined) lines.push([left]);
    const { kept, chosen } = choose(view, dead.groups, nameOfGroup);
    const group = kept[chosen];
    // Full ids, because the commands below need them and the table may cut them.
    if (group !== undefined) lines.push([`FINGERPRINT ${group.fingerprint}  ID ${group.example}`]);
    lines.push([paint("dim", `Look: ${command(schema, "jobs", "show", "ID")}`)]);
    lines.push([
      paint(
        "dim",
        `Again: ${command(schema, "dead", "replay", "--all", "--fingerprint", "FINGERPRINT", "--reason", "…")}`,
      ),
    ]);
  }
  lines.push([
    paint("dim", "q quit  ? help  Enter open  Esc back  d dead  w workers  s slow  / filter  p pause"),
  ]);
  return lines;
}

const help: readonly (readonly [string, string])[] = [
  ["j k ↑ ↓", "choose a row"],
  ["Enter", "open the queue: its kinds and its slow jobs"],
  ["Esc", "clear the filter, or go back to the queues"],
  ["d", "dead jobs, by error"],
  ["w", "workers"],
  ["s", "running jobs that are slow for their kind"],
  ["/", "show only rows that contain a text"],
  ["p", "pause and resume"],
  ["q Ctrl-C", "quit"],
];

/** Half as many bars on a narrow terminal: cutting the line would lose the latest bars. */
function queueColumns(at: Date, width = Number.POSITIVE_INFINITY): readonly Column<QueueHealth>[] {
  const minutes = width < 160 ? 15 : 30;
  return [
    { title: "QUEUE", cell: (row) => row.queue, most: 30 },
    { title: "LATE IN", cell: (row) => lateIn(row), align: "right", most: 12 },
    { title: "OLDEST READY", cell: oldest, align: "right", most: 24 },
    { title: "READY", cell: ({ depth }) => count(depth.ready, "blue"), align: "right", most: 9 },
    { title: "RUNNING", cell: runningText, align: "right", most: 9 },
    { title: "DEAD", cell: ({ depth }) => count(depth.dead, "red"), align: "right", most: 9 },
    { title: "SLOTS", cell: slotsText, align: "right", most: 12 },
    { title: "ARRIVED", cell: ({ rates }) => rate(rates.arrived), align: "right", most: 9 },
    { title: "ENDED", cell: ({ rates }) => rate(rates.ended), align: "right", most: 9 },
    {
      title: `ENDED, ${minutes} MIN`,
      cell: ({ recent }) =>
        sparkline(
          finishedMinutes(recent, at).map((one) => one.ended),
          minutes,
        ),
      most: minutes,
    },
    {
      title: "DRAINS IN",
      cell: (row) => (row.depth.ready === 0 ? "" : duration(row.drainMs)),
      align: "right",
      most: 12,
    },
    { title: "RETRIES", cell: (row) => percent(row.retryShare), align: "right", most: 9 },
    { title: "RETRYING", cell: ({ depth }) => count(depth.retrying, "magenta"), align: "right", most: 9 },
    { title: "SCHEDULED", cell: ({ depth }) => count(depth.scheduled, "cyan"), align: "right", most: 9 },
  ];
}

/** Jobs in a slot. Jobs claimed ahead, or on a draining worker, are shown next to the slots. */
function runningText({ depth, slots }: QueueHealth): Piece {
  return count(slots.total > 0 ? slots.busy : depth.running, "yellow");
}

function oldest({ oldestReadyMs, targetMs, paused }: QueueHealth): Painted {
  const text = oldestReadyMs === null ? "-" : `${duration(oldestReadyMs)} of ${duration(targetMs)}`;
  return paint(paused === null && oldestReadyMs !== null && oldestReadyMs >= targetMs ? "red" : "dim", text);
}

const kindColumns: readonly Column<KindView>[] = [
  { title: "KIND", cell: (row) => row.kind, most: 40 },
  { title: "READY", cell: ({ depth }) => count(depth.ready, "blue"), align: "right" },
  { title: "RUNNING", cell: ({ depth }) => count(depth.running, "yellow"), align: "right" },
  { title: "DEAD", cell: ({ depth }) => count(depth.dead, "red"), align: "right", most: 9 },
  { title: "ENDED", cell: ({ rates }) => rate(rates.ended), align: "right", most: 9 },
  { title: "RUN TIME P50", cell: ({ run }) => duration(run.p50), align: "right", most: 12 },
  { title: "RUN TIME P99", cell: ({ run }) => duration(run.p99), align: "right", most: 12 },
  { title: "QUEUE TIME P99", cell: ({ wait }) => duration(wait.p99), align: "right", most: 12 },
  { title: "SERVING", cell: (row) => count(row.workers, "green"), align: "right", most: 9 },
  { title: "ADVICE", cell: (row) => row.leaseAdvice ?? "", most: 80 },
];

const nameOfGroup = ({ kind, error }: DeadGroups["groups"][number]): string => `${kind} ${error}`;

/** Ids only if they fit: those of the selected group are shown below. */
const deadColumns = deadGroupColumns.map((column) =>
  column.title === "FINGERPRINT" ? Object.assign({}, column, { leaves: 2 }) : column,
);

const slowColumns: readonly Column<SlowJob>[] = [
  { title: "ID", cell: (row) => row.id, leaves: 1 },
  { title: "KIND", cell: (row) => row.kind, most: 30 },
  { title: "RUNNING FOR", cell: (row) => duration(row.runningMs), align: "right", most: 12 },
  { title: "P95 FOR KIND", cell: (row) => duration(row.p95Ms), align: "right", most: 12 },
  { title: "WORKER", cell: (row) => row.worker ?? "", most: 30, leaves: 2 },
  { title: "REASON", cell: (row) => row.text, most: 80 },
];

/** Pieces side by side, cut at the width of the terminal. */
function lineOf(paper: Paper, pieces: readonly Piece[], columns: number): string {
  let left = columns;
  return pieces
    .map((piece) => {
      const { text, style } = typeof piece === "object" ? piece : { text: String(piece), style: undefined };
      if (left <= 0) return "";
      const shown = cut(safe(text), left);
      left -= shown.length;
      return paper.dye(shown, style);
    })
    .join("");
}
