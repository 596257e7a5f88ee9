import type { JobSteps } from "../client/steps.ts";
import { formatMs } from "../model/figures.ts";
import type { SignalView } from "../sql/signals.ts";
import type { StepView } from "../sql/steps.ts";
import { age } from "./job-text.ts";
import { paint, say, toJson, type Output, type Piece } from "./output.ts";
import { pairs, table, type Column } from "./table.ts";

const mostLines = 20;

/** What a job remembers and reports: steps, progress, log lines, and signals that it has not received. */
export function showSteps(out: Output, { steps, progress, signals }: JobSteps): void {
  if (progress !== null) {
    const { fraction, note, checkpoint, checkpointAt, lines, lineCount } = progress;
    out.line(say``);
    pairs(out, [
      [
        "Progress",
        fraction === null ? "" : `${Math.round(fraction * 100)} %${note === null ? "" : `, ${note}`}`,
      ],
      ["Last report", age(progress.at)],
      ["Checkpoint", checkpointAt === null ? "" : `${short(checkpoint)} (${age(checkpointAt)})`],
    ]);
    if (lines.length > 0) {
      out.line(say``);
      out.line(say`${paint("dim", "Log")}`);
      const shown = lines.slice(-mostLines);
      if (lineCount > shown.length)
        out.line(say`  ${paint("dim", `… ${lineCount - shown.length} earlier lines`)}`);
      for (const { at, text } of shown) out.line(say`  ${paint("dim", at.toISOString())}  ${text}`);
    }
  }
  if (steps.length > 0) {
    out.line(say``);
    table(out, stepColumns, steps);
  }
  if (signals.length > 0) {
    out.line(say``);
    table(out, signalColumns, signals);
  }
}

const stepColumns: readonly Column<StepView>[] = [
  { title: "STEP", cell: (step) => step.seq, align: "right" },
  { title: "NAME", cell: (step) => step.name, most: 48 },
  { title: "STATUS", cell: statusText },
  { title: "WHEN", cell: (step) => age(step.at) },
  { title: "TOOK", cell: ({ tookMs }) => (tookMs === null ? "" : formatMs(tookMs)), align: "right" },
  {
    title: "RESULT",
    cell: ({ result }) => (result === null ? "" : short(result)),
    most: Number.POSITIVE_INFINITY,
  },
];

const signalColumns: readonly Column<SignalView>[] = [
  { title: "SIGNAL", cell: ({ name }) => name, most: 48 },
  { title: "SENT", cell: ({ sentAt }) => age(sentAt) },
  { title: "BY", cell: ({ sentBy }) => sentBy ?? "", most: 48 },
  { title: "PAYLOAD", cell: ({ payload }) => short(payload), most: Number.POSITIVE_INFINITY },
];

function statusText({ state, until }: StepView): Piece {
  if (state === "done") return paint("green", state);
  if (state === "timed-out") return paint("yellow", state);
  return until === null ? state : `${state} until ${until.toISOString()}`;
}

function short(value: unknown): string {
  const text = toJson(value);
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
