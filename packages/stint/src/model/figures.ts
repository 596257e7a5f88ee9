/** One way to write each figure, in the CLI, the dashboard, logs and errors. */

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
] as const;

/** `250 ms`, `6.3 s`, `2 min 4 s`, `1 d 4 h`. */
export function formatMs(ms: number): string {
  if (!Number.isFinite(ms)) return "forever";
  if (ms < 0) return `-${formatMs(-ms)}`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 59_950) return `${Math.round(ms / 100) / 10} s`;

  // Two units are enough: after four days the seconds do not matter.
  let rest = Math.round(ms / 1_000) * 1_000;
  const first = units.findIndex(([, size]) => rest >= size);
  const parts: string[] = [];
  for (const [unit, size] of units.slice(first, first + 2)) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${formatCount(count)} ${unit}`);
  }
  return parts.join(" ");
}

const grouped = new Intl.NumberFormat("en-US");

/** `12,345`. */
export function formatCount(count: number): string {
  return grouped.format(count);
}

/** `1 job`, `12,345 jobs`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
