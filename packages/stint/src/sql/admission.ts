import type { Run } from "../db/db.ts";
import { columns, flag, json, number, numberOrNull, oneOf, orNull, readOne, texts } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { admissionPolicies, type AdmissionState } from "../model/admission.ts";
import type { IdleCheckPart } from "./idle-check.ts";

/** The SQLSTATE of an enqueue to a full queue. Its detail is JSON. */
export const queueFullCode = "ST006";

const read = statement(
  "admission",
  `
  select
    admits, is_full as "isFull", on_enqueue as "onEnqueue", defer_ms::float8 as "deferMs", retry_after_ms as "retryAfterMs",
    policy, depth::float8 as depth, age_ms as "ageMs", max_depth::float8 as "maxDepth", max_age_ms as "maxAgeMs",
    case when behind is not null then jsonb_build_object('dependency', behind, 'delayMs', delay_ms, 'maxDelayMs', max_delay_ms) end as behind,
    case when tenant_policy is not null then jsonb_build_object(
      'tenant', $2::text, 'policy', tenant_policy, 'depth', tenant_depth, 'ageMs', tenant_age_ms, 'maxDepth', tenant_max_depth,
      'maxAgeMs', tenant_max_age_ms) end as tenant
  from stint.admission($1, $2)`,
);

const toState = columns<Omit<AdmissionState, "queue">>({
  admits: flag,
  isFull: flag,
  onEnqueue: oneOf(["accept", ...admissionPolicies]),
  deferMs: number,
  retryAfterMs: number,
  policy: orNull(oneOf(admissionPolicies)),
  depth: number,
  ageMs: number,
  maxDepth: numberOrNull,
  maxAgeMs: numberOrNull,
  behind: orNull(json<NonNullable<AdmissionState["behind"]>>),
  tenant: orNull(json<NonNullable<AdmissionState["tenant"]>>),
});

/** What an enqueue of one job to a queue, of this tenant, would meet now. */
export async function admission(
  db: Run,
  queue: string,
  tenant: string | null = null,
): Promise<AdmissionState> {
  return { queue, ...(await readOne(db, read, [queue, tenant], toState)) };
}

/** Whether any queue has admission settings, or jobs that were admitted by some. */
export const admissionInUse: IdleCheckPart = {
  sql: `
      select case
        when exists (select from stint.queue q where q.admission is not null and q.name >= stint.by_index((select ''::text)))
          or (select a.job_id from stint.admitted a order by a.queue, a.tenant, a.job_id limit 1) is not null
        then 5000
      end`,
  endsSleep: false,
};

/** A row of stint.admitted: its queue, tenant and job. */
export type AdmittedPlace = readonly string[];

const tend = statement("tend-admission", `select stint.tend_admission($1::text[], $2, $3) as last`);
const placeOrNull = orNull(texts);

/**
 * Take samples of queues that may be full, and delete rows of ended jobs, `limit` rows after a place. Returns the next place; null: start
 * over. Does nothing if another worker did it within `everyMs`.
 */
export async function tendAdmission(
  db: Run,
  after: AdmittedPlace | null,
  limit: number,
  everyMs = 0,
): Promise<AdmittedPlace | null> {
  return await readOne(db, tend, [after, limit, everyMs], (row) => placeOrNull(row, "last"));
}
