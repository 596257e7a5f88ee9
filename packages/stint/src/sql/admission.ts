import type { Run } from "../db/db.ts";
import { columns, flag, number, numberOrNull, oneOf, orNull, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { admissionPolicies, type AdmissionState } from "../model/admission.ts";

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
