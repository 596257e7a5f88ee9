import { formatMs, plural } from "../../model/figures.ts";
import { stepGaps, type StepGaps } from "../../sql/doctor/stalls.ts";
import type { Check } from "../check.ts";
import { note, warning, type Seen } from "../finding.ts";

/** Fewer gaps say too little about a kind. */
const enoughGaps = 20;
/** A pause this many times the longest gap is no coincidence. */
const times = 3;
const shortestMs = 10_000;

/** Whether a handler that hangs between two steps would be reported before its timeout. */
export const stalls: Check = {
  name: "stalls",
  needsSchema: true,
  look: async ({ session }) => stallRule(await stepGaps(session)),
};

export function stallRule(found: readonly StepGaps[]): Seen {
  const findings = found.flatMap(({ kind, gaps, longest_ms: longestMs, stall_after_ms: stallAfterMs }) => {
    if (gaps < enoughGaps) return [];
    const what = `kind ${kind}`;
    const advice = `stallAfter: "${roundUp(Math.max(shortestMs, times * longestMs))}s"`;
    const longest = `Its longest pause between two steps was ${formatMs(longestMs)}.`;
    if (stallAfterMs === null)
      return [note("A kind with steps does not report stalls", what, `${longest} Declare ${advice}.`)];
    return stallAfterMs < longestMs
      ? [
          warning(
            "A kind reports stalls of jobs that continue",
            what,
            `${longest} Its stallAfter is ${formatMs(stallAfterMs)}. Declare ${advice}.`,
          ),
        ]
      : [];
  });
  return { seen: `${plural(found.length, "kind")} with steps`, findings };
}

/** In seconds: to ten seconds, or to a minute where it is long. */
function roundUp(ms: number): number {
  const unit = ms > 300_000 ? 60 : 10;
  return Math.ceil(ms / 1_000 / unit) * unit;
}
