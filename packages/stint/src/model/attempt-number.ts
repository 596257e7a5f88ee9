import type { Attempt, AttemptOutcome, Job } from "./job.ts";

/** Whether an attempt with this outcome was spent. After the others, the next claim has the same number. */
const spent: Record<AttemptOutcome, boolean> = {
  succeeded: true,
  failed: true,
  "timed-out": true,
  cancelled: true,
  crashed: false,
  released: false,
  snoozed: false,
  parked: false,
};

/**
 * The attempt number of each entry of a job's log, by epoch: the number that its handler saw as `attempt`. Entries of released
 * attempts share a number, and a replay starts at 1 again. The epoch counts every claim, so it differs.
 */
export function attemptNumbers(
  { log, attempts, state }: Pick<Job, "log" | "attempts" | "state">,
  replays: readonly Date[],
): Record<number, number> {
  const runOf = (entry: Attempt): number =>
    replays.filter((at) => at.getTime() <= (entry.startedAt ?? entry.endedAt).getTime()).length;
  const numbers: Record<number, number> = {};
  const countUp = (entries: readonly Attempt[]): void => {
    let next = 1;
    for (const { epoch, outcome } of entries) {
      numbers[epoch] = next;
      if (spent[outcome]) next += 1;
    }
  };
  for (let run = 0; run < replays.length; run++) countUp(log.filter((entry) => runOf(entry) === run));
  // The current run, from its end: its first entries may have been dropped.
  const present = log.filter((entry) => runOf(entry) === replays.length);
  let next = state === "running" ? attempts : attempts + 1;
  for (const [index, { epoch, outcome }] of [...present.entries()].toReversed()) {
    if (spent[outcome]) next -= 1;
    if (next < 1) {
      // An entry of an earlier run, whose replay is no longer in the audit.
      countUp(present.slice(0, index + 1));
      break;
    }
    numbers[epoch] = next;
  }
  return numbers;
}
