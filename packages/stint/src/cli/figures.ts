import { formatMs } from "../model/duration.ts";
import { paint, type Painted, type Piece, type Style } from "./output.ts";

/** A count: grey where there is nothing to see. */
export function count(number: number, style: Style): Piece {
  return paint(number === 0 ? "dim" : style, String(number));
}

/** Per second, short: `0`, `0.4`, `12`, `3.4k`. */
export function rate(perSecond: number): string {
  if (perSecond === 0) return "0";
  if (perSecond < 0.05) return "<0.1";
  if (perSecond < 9.95) return perSecond.toFixed(1);
  if (perSecond < 999.5) return String(Math.round(perSecond));
  return `${(perSecond / 1_000).toFixed(1)}k`;
}

export function duration(ms: number | null): string {
  return ms === null ? "" : formatMs(ms);
}

export function percent(share: number | null): string {
  return share === null ? "" : `${Math.round(share * 100)}%`;
}

export function bytes(size: number | null): string {
  return size === null ? "" : `${Math.round(size / 2 ** 20)} MB`;
}

/** When a queue's oldest job will be older than it should: a word and not only a colour where it is. */
export function breach(ms: number | null): Painted {
  if (ms === null) return paint("dim", "-");
  if (ms === 0) return paint(["red", "bold"], "over");
  return paint(ms < 900_000 ? "yellow" : "dim", formatMs(ms));
}

/** The minutes that were over at this moment: the one that has begun would look like a fall. Each is as long as the first. */
export function finishedMinutes<Minute extends { readonly at: Date }>(
  minutes: readonly Minute[],
  at: Date,
): Minute[] {
  const [first, second] = minutes.map((minute) => minute.at.getTime());
  const lengthMs = first === undefined || second === undefined ? 0 : second - first;
  return minutes.filter((minute) => minute.at.getTime() + lengthMs <= at.getTime());
}

const bars = "▁▂▃▄▅▆▇█";

/** Values as tiny bars, the last ones if there are too many. Nothing is the lowest bar, anything at all is above it. */
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
