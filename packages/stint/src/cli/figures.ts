import type { QueueHealth } from "../inspect/types.ts";
import { formatCount, formatMs } from "../model/figures.ts";
import { paint, type Painted, type Piece, type Style } from "./output.ts";

/** A count; zero is dim. */
export function count(number: number, style: Style): Piece {
  return paint(number === 0 ? "dim" : style, formatCount(number));
}

/** `0`, `0.4/s`, `12/s`, `3.4k/s`. */
export function rate(perSecond: number): string {
  if (perSecond === 0) return "0";
  if (perSecond < 0.05) return "<0.1/s";
  if (perSecond < 9.95) return `${perSecond.toFixed(1)}/s`;
  if (perSecond < 999.5) return `${Math.round(perSecond)}/s`;
  return `${(perSecond / 1_000).toFixed(1)}k/s`;
}

export function duration(ms: number | null): string {
  return ms === null ? "" : formatMs(ms);
}

export function percent(share: number | null): string {
  return share === null ? "" : `${Math.round(share * 100)} %`;
}

export function bytes(size: number | null): string {
  return size === null ? "" : `${Math.round(size / 2 ** 20)} MB`;
}

/** The time until the oldest ready job of a queue is older than its target. Late queues have a word, not only a colour. */
export function lateIn({ breachInMs: ms, paused }: Pick<QueueHealth, "breachInMs" | "paused">): Painted {
  if (paused !== null) return paint("yellow", "paused");
  if (ms === null) return paint("dim", "-");
  if (ms === 0) return paint(["red", "bold"], "late");
  return paint(ms < 900_000 ? "yellow" : "dim", formatMs(ms));
}

/** The minutes that were complete at this moment: an incomplete minute would look like a drop. All have the length of the first. */
export function finishedMinutes<Minute extends { readonly at: Date }>(
  minutes: readonly Minute[],
  at: Date,
): Minute[] {
  const [first, second] = minutes.map((minute) => minute.at.getTime());
  const lengthMs = first === undefined || second === undefined ? 0 : second - first;
  return minutes.filter((minute) => minute.at.getTime() + lengthMs <= at.getTime());
}

const bars = "▁▂▃▄▅▆▇█";

/** Values as small bars, the latest `width` of them. Zero is the lowest bar; any other value is above it. */
export function sparkline(values: readonly number[], width: number): string {
  const shown = values.slice(-width);
  const most = Math.max(0, ...shown);
  return shown
    .map(
      (value) =>
        bars[value <= 0 || most === 0 ? 0 : Math.max(1, Math.round((value / most) * (bars.length - 1)))],
    )
    .join("");
}

/** `6/8`: busy slots of all slots. `+2`: running jobs that occupy none of these slots, claimed ahead or on a draining worker. */
export function slotsText({ depth, slots: { busy, total } }: Pick<QueueHealth, "depth" | "slots">): string {
  const beside = total > 0 ? depth.running - busy : 0;
  return `${formatCount(busy)}/${formatCount(total)}${beside > 0 ? ` +${formatCount(beside)}` : ""}`;
}
