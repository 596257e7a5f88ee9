const hourMs = 3_600_000;
const minuteMs = 60_000;
const secondMs = 1_000;
/** Where the parts of `2026-11-19 20:32:03.73458+00` begin. */
const at = { hour: 11, minute: 14, second: 17, fraction: 20 };

/** The day that was read last: nearly every job of a claim has it. */
let lastDay = { text: "", ms: 0 };

/**
 * Milliseconds since 1970 of a timestamp as our sessions receive it, which is in UTC. `Date.parse` takes five times as long, and a worker reads two
 * timestamps for each job.
 */
export function timestampMs(text: string): number {
  // Others are rare: years beyond 9999, `infinity`, and sessions whose time zone a pooler has kept.
  if (!text.endsWith("+00") || text.charAt(10) !== " ") return Date.parse(text);
  const date = text.slice(0, 10);
  if (date !== lastDay.text) lastDay = { text: date, ms: Date.parse(date) };
  let ms = 0;
  const end = text.length - "+00".length;
  for (let n = at.fraction, unit = 100; n < end && unit >= 1; n += 1, unit /= 10) ms += digit(text, n) * unit;
  return (
    lastDay.ms +
    twoDigits(text, at.hour) * hourMs +
    twoDigits(text, at.minute) * minuteMs +
    twoDigits(text, at.second) * secondMs +
    ms
  );
}

function digit(text: string, index: number): number {
  return text.charCodeAt(index) - 48;
}

function twoDigits(text: string, index: number): number {
  return digit(text, index) * 10 + digit(text, index + 1);
}
