import type { Run } from "../db/db.ts";
import { columns, flag, number, numberOrNull, oneOf, orNull, readOne, texts } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { admissionPolicies, type AdmissionState } from "../model/admission.ts";
import type { IdleCheckPart } from "./idle-check.ts";

/** The SQLSTATE of an enqueue to a full queue. Its detail is JSON. */
export const queueFullCode = "ST006";

const read = statement(
  "admission",
  `
  select
    admits, policy, depth::float8 as depth, age_ms as "ageMs", max_depth::float8 as "maxDepth", max_age_ms as "maxAgeMs",
    retry_after_ms as "retryAfterMs"
  from stint.admission($1)`,
);

const toState = columns<Omit<AdmissionState, "queue">>({
  admits: flag,
  policy: orNull(oneOf(admissionPolicies)),
  depth: number,
  ageMs: number,
  maxDepth: numberOrNull,
  maxAgeMs: numberOrNull,
  retryAfterMs: number,
});

/** Whether a queue would admit a job now. */
export async function admission(db: Run, queue: string): Promise<AdmissionState> {
  return { queue, ...(await readOne(db, read, [queue], toState)) };
}

/** Whether any queue has admission settings, or jobs that were admitted by some. */
export const admissionInUse: IdleCheckPart = {
  sql: `
      select case
        when exists (select from stint.queue q where q.admission is not null)
          or (select a.job_id from stint.admitted a order by a.queue, a.tenant, a.job_id limit 1) is not null
        then 5000
      end`,
  endsSleep: false,
};

/** A row of stint.admitted: its queue, tenant and job. */
export type AdmittedPlace = readonly string[];

const tend = statement("tend-admission", `select stint.tend_admission($1::text[], $2) as last`);
const placeOrNull = orNull(texts);

/**
 * Take samples of queues that may be full, and delete rows of ended jobs, `limit` rows after a place. Returns the next place; null: start
 * over.
 */
export async function tendAdmission(
  db: Run,
  after: AdmittedPlace | null,
  limit: number,
): Promise<AdmittedPlace | null> {
  return await readOne(db, tend, [after, limit], (row) => placeOrNull(row, "last"));
}
