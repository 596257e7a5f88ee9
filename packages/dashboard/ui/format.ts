/** One way to write each figure: short enough for a column, always with its unit. Counts and durations are written as in the CLI. */
import { formatCount, formatMs } from "stint/inspect";

export { formatCount as number, plural } from "stint/inspect";

/** `950`, `12.3k`, `4.1M`: where the exact figure does not matter. */
export function short(value: number): string {
  const magnitude = Math.abs(value);
  if (magnitude < 10_000) return formatCount(Math.round(value));
  if (magnitude < 999_500) return `${digits(value / 1_000)}k`;
  if (magnitude < 999_500_000) return `${digits(value / 1_000_000)}M`;
  return `${digits(value / 1_000_000_000)}G`;
}

const digits = (value: number) =>
  Math.abs(value) < 99.95 ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value).toString();

const steps = [
  { unit: "d", ms: 86_400_000 },
  { unit: "h", ms: 3_600_000 },
  { unit: "min", ms: 60_000 },
] as const;

/** A configured duration, which is round: `0`, `500 ms`, `5 s`, `15 min`, `1.5 h`. */
export function roundDuration(ms: number): string {
  if (ms < 1_000) return ms === 0 ? "0" : `${ms} ms`;
  const step = steps.find((candidate) => ms >= candidate.ms && (ms / candidate.ms) % 0.5 === 0);
  return step === undefined ? duration(ms) : `${ms / step.ms} ${step.unit}`;
}

/** `340 ms`, `4.2 s`, `2 min 5 s`, `3 h 12 min`, `5 d`. A dash when there is none. */
export function duration(ms: number | null | undefined): string {
  return ms === null || ms === undefined ? "–" : formatMs(Math.max(0, ms));
}

/** For axes of time: steps that read well, from a millisecond to a month. */
export const durationSteps: readonly number[] = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1_000),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 3, 6, 12, 24, 48, 120, 240, 720].map((hours) => hours * 3_600_000),
];

/** Per second, or per minute where a second is too short to see anything: `12/s`, `4.5/min`. */
export function rate(perSecond: number): string {
  if (perSecond === 0) return "0";
  if (perSecond >= 1) return `${perSecond < 100 ? trimmed(perSecond) : short(perSecond)}/s`;
  const perMinute = perSecond * 60;
  return perMinute < 0.1 ? "<0.1/min" : `${trimmed(perMinute)}/min`;
}

const trimmed = (value: number) =>
  value < 9.95 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value));

/** `0.4 %`, `12 %`. */
export function share(part: number | null): string {
  if (part === null) return "–";
  const percent = part * 100;
  if (percent === 0) return "0 %";
  return percent < 9.95 ? `${percent.toFixed(1)} %` : `${Math.round(percent)} %`;
}

export function bytes(value: number | null): string {
  if (value === null) return "–";
  const mega = value / 1_048_576;
  return mega < 1_000 ? `${Math.round(mega)} MB` : `${(mega / 1_024).toFixed(1)} GB`;
}

const timeOfDay = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** `12:03:04`, in the time zone of the viewer. */
export function clock(ms: number): string {
  return timeOfDay.format(ms);
}
