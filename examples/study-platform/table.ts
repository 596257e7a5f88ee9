/** Formats the table as plain strings. Pure: no terminal, no clock. */
import type { Entry, Tone } from "./feed.ts";
import type { QueueView } from "./view.ts";

export type Frame = {
  readonly title: string;
  readonly status: string;
  readonly queues: readonly QueueView[];
  readonly helper: string;
  readonly entries: readonly Entry[];
};

export type Size = { readonly columns: number; readonly rows: number };

type Column = {
  heading: string;
  width: number;
  cell: (view: QueueView) => string;
  total?: boolean;
  color?: string;
};

const bold = "1";
const dim = "2";
const red = "31";
const green = "32";
const yellow = "33";
const cyan = "36";

const toneColors: Record<Tone, string> = { plain: "0", wait: yellow, bad: red, good: green };

/** Exactly `rows` lines, none wider than the terminal. */
export function drawTable(frame: Frame, size: Size, color: boolean): string[] {
  const paint = (code: string, text: string): string =>
    color && text.trim() !== "" ? `\u001B[${code}m${text}\u001B[0m` : text;
  const columns = chooseColumns(size.columns);

  const gap = Math.max(1, size.columns - frame.title.length - frame.status.length - 2);
  const head = [
    ` ${paint(bold, frame.title)}${" ".repeat(gap)}${paint(dim, frame.status)}`,
    "",
    paint(dim, columns.map(({ heading, width }, at) => pad(heading, width, at < 2)).join("")),
    ...frame.queues.map((view) =>
      columns
        .map(({ cell, width, color }, at) => {
          const text = pad(cell(view), width, at < 2);
          return cell(view) === "0" || cell(view) === "-" ? paint(dim, text) : paint(color ?? "0", text);
        })
        .join(""),
    ),
    "",
    paint(cyan, cut(` ${frame.helper}`, size.columns)),
    "",
  ];
  const room = Math.max(0, size.rows - head.length);
  const lines = frame.entries.slice(-size.rows).flatMap((entry) => {
    const text = entry.times > 1 ? `${entry.text} ×${entry.times}` : entry.text;
    return wrap(text, size.columns - indent.length).map((part, index) => {
      const start = index === 0 ? ` ${paint(dim, timeOf(entry.at))}  ` : indent;
      return `${start}${paint(toneColors[entry.tone], part)}`;
    });
  });
  return [...head, ...(room === 0 ? [] : lines.slice(-room))].slice(0, size.rows);
}

const indent = " ".repeat(11);

function chooseColumns(width: number): Column[] {
  const wide = width >= 100;
  const bar = wide ? 20 : 10;
  const columns: Column[] = [
    { heading: " queue", width: 15, cell: ({ queue }) => ` ${queue}`, color: bold },
    { heading: "slots", width: bar + 6, cell: (view) => slotBar(view, bar), color: cyan },
    { heading: "ready", width: 7, cell: ({ ready }) => `${ready}` },
    { heading: "running", width: 8, cell: ({ running }) => `${running}` },
    { heading: "retrying", width: 9, cell: ({ retrying }) => `${retrying}`, color: yellow },
    { heading: "dead", width: 5, cell: ({ dead }) => `${dead}`, color: red },
    { heading: "oldest", width: 8, cell: ({ oldestMs }) => ageOf(oldestMs) },
    { heading: "rate", width: 8, cell: ({ rate }) => `${rate.toFixed(1)}/s` },
  ];
  if (!wide) return fitting(columns, width);
  columns.splice(2, 0, { heading: "scheduled", width: 11, cell: ({ scheduled }) => `${scheduled}` });
  columns.push({ heading: "succeeded", width: 11, cell: ({ succeeded }) => `${succeeded}`, color: green });
  return fitting(columns, width);
}

/** Drops columns from the right until the rest fits the terminal. */
function fitting(columns: Column[], width: number): Column[] {
  let used = 0;
  return columns.filter((column) => (used += column.width) <= width);
}

/** One mark per slot if they fit: full for busy, light for free. */
function slotBar({ busy, slots }: QueueView, width: number): string {
  const marks = Math.min(width, slots * (width / 10));
  const full = Math.round((Math.min(busy, slots) / slots) * marks);
  return `${"█".repeat(full)}${"░".repeat(marks - full)}`.padEnd(width) + ` ${busy}/${slots}`;
}

export function ageOf(ms: number | null): string {
  if (ms === null) return "-";
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min`;
}

export function timeOf(at: Date): string {
  return at.toTimeString().slice(0, 8);
}

function pad(text: string, width: number, left: boolean): string {
  return left ? text.padEnd(width) : text.padStart(width);
}

function cut(text: string, width: number): string {
  if (text.length <= width) return text;
  return width < 2 ? text.slice(0, Math.max(0, width)) : `${text.slice(0, width - 1)}…`;
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(cut(word, width));
  }
  return lines;
}
