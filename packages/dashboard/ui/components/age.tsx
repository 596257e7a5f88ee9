import { useSyncExternalStore } from "react";

/** One timer for every age on the page; it stops when none is shown. */
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let second = Math.floor(Date.now() / 1000);

function listen(changed: () => void): () => void {
  listeners.add(changed);
  timer ??= setInterval(() => {
    second = Math.floor(Date.now() / 1000);
    for (const listener of listeners) listener();
  }, 1000);
  return () => {
    listeners.delete(changed);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

function currentSecond(): number {
  // Without listeners the timer is stopped, and its last value would be old.
  if (timer === undefined) second = Math.floor(Date.now() / 1000);
  return second;
}

/** The current time, to the second or to a longer step, which rerenders less often. */
export function useNow(stepSeconds = 1): number {
  const step = useSyncExternalStore(listen, () => Math.floor(currentSecond() / stepSeconds));
  return step * stepSeconds * 1000;
}

const steps = [
  { unit: "d", ms: 86_400_000 },
  { unit: "h", ms: 3_600_000 },
  { unit: "min", ms: 60_000 },
  { unit: "s", ms: 1000 },
] as const;

/** How long ago, or how soon, in one unit. */
export function relative(at: number, now: number): string {
  const away = now - at;
  const size = Math.abs(away);
  if (size < 1500) return "now";
  const step = steps.find(({ ms }) => size >= ms) ?? { unit: "s", ms: 1000 };
  const text = `${Math.floor(size / step.ms)} ${step.unit}`;
  return away < 0 ? `in ${text}` : `${text} ago`;
}

const exactFormat = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
  hourCycle: "h23",
  timeZoneName: "short",
});

/** The exact time, in the time zone of the viewer. */
export function exact(at: string): string {
  const date = new Date(at);
  return Number.isNaN(date.getTime()) ? at : exactFormat.format(date);
}

/** When something happened, relative to now; the exact time is one hover away. */
export function Age({ at }: { at: string }) {
  const now = useNow();
  return (
    <time className="relative-time" dateTime={at} title={exact(at)}>
      {relative(Date.parse(at), now)}
    </time>
  );
}
