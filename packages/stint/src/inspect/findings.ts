import type { AuditEntry } from "../sql/audit.ts";
import type { CloseJob, Surroundings } from "../sql/explain-job.ts";
import type { Explanation } from "./types.ts";

/** All that is known of a job and its surroundings. The rules that explain it look at nothing else. */
export type Facts = Pick<CloseJob, "job" | "at" | "timeoutMs" | "maxCrashes"> & {
  /** Where it lives: advised commands must work there. */
  readonly schema: string;
  readonly around: Surroundings;
  readonly audit: readonly AuditEntry[];
  /** The 95th percentile of its kind's runs; null while too few have ended to know. */
  readonly usualMs: number | null;
};

export type Finding = Explanation["findings"][number];

/** This alone keeps the job from running now. */
export function blocks(text: string, advice: string | null = null): Finding {
  return { blocks: true, text, advice };
}

export function notes(text: string, advice: string | null = null): Finding {
  return { blocks: false, text, advice };
}

/** How many jobs are somewhere, where they were counted up to one more than `most`. */
export function some(count: number, most: number): string {
  if (count > most) return `More than ${most} jobs are`;
  return count === 1 ? "1 job is" : `${count} jobs are`;
}
