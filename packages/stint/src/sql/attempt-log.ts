import type { Failure } from "../model/failure.ts";
import type { AttemptOutcome } from "../model/job.ts";

/** How an attempt ended, as the job's log keeps it. The database adds the times, the worker and the epoch. */
export type Ending = { outcome: AttemptOutcome; error?: Failure };

/** The log of the running job `row` with one more entry. `ending` is a SQL expression for the entry's outcome and error. */
export const logWith = (row: string, ending: string): string => {
  const of = row === "" ? "" : `${row}.`;
  return `stint.append_attempt(${of}log, jsonb_build_object(
      'epoch', ${of}epoch, 'worker', ${of}worker, 'startedAt', ${of}claimed_at, 'endedAt', clock_timestamp(), 'lease', ${of}lease_id
    ) || ${ending})`;
};
