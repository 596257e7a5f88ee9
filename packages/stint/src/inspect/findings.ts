import type { AuditEntry } from "../sql/audit.ts";
import { plural } from "../model/figures.ts";
import type { CloseJob, Surroundings } from "../sql/explain-job.ts";
import type { FlowPlace } from "../sql/flow-place.ts";
import type { Explanation } from "./types.ts";

/** Everything known about a job and its surroundings. The rules of `why` read nothing else. */
export type Facts = Pick<CloseJob, "job" | "at" | "timeoutMs" | "maxCrashes"> &
  Partial<Pick<CloseJob, "quietMs" | "stallAfterMs">> & {
    /** The schema, for the commands in the advice. */
    readonly schema: string;
    readonly around: Surroundings;
    readonly audit: readonly AuditEntry[];
    /** Where the job stands in its flow, if it is part of one. */
    readonly flow?: FlowPlace | undefined;
    /** The 95th percentile of the kind's run times; null while there are too few. */
    readonly p95Ms: number | null;
  };

export type Finding = Explanation["findings"][number];

/** A finding that alone keeps the job from running now. */
export function blocks(text: string, advice: string | null = null): Finding {
  return { blocks: true, text, advice };
}

export function notes(text: string, advice: string | null = null): Finding {
  return { blocks: false, text, advice };
}

/** A count of jobs as text. The count stops at one more than `most`. */
export function some(count: number, most: number): string {
  if (count > most) return `More than ${most} jobs are`;
  return plural(count, "job is", "jobs are");
}
