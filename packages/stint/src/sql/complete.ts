import type { Run } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { readMaybe, text } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import {
  afterFollowUps,
  audited,
  followed,
  ofEnded,
  tallied,
  toHistory,
  type AuditInfo,
} from "./transitions.ts";

// A success that no worker records: an approval or a webhook has done the work of the job.

const completeJob = statement(
  "complete",
  `
  with ${toHistory(
    { where: "j.id = $1 and j.state <> 'running'" },
    { state: "'succeeded'::stint.job_state", reason: "null::text", result: "$6::text::jsonb" },
    "id, kind",
  )}, tallied as (
    ${tallied("gone", { was: ["scheduled", "ready", "retrying", "parked"], becomes: ["succeeded"] })}
  ), noted as (
    ${audited("complete", { id: "$2", actor: "$3", reason: "$4", job: "id", rows: "ended" })}
  ), ${followed("gone", ofEnded)}
  select kind from ended where (clock_timestamp() < $5::timestamptz or stint.too_late()) and ${afterFollowUps}`,
);

/** End a waiting job as succeeded, with this result (JSON text). Returns its kind; undefined if the job does not wait. */
export async function completeWaiting(
  db: Run,
  id: string,
  result: string | null,
  { auditId, actor, reason, until }: AuditInfo,
): Promise<string | undefined> {
  const values = [id, auditId, actor, reason, until === undefined ? "infinity" : toTimestamp(until), result];
  return await readMaybe(db, completeJob, values, (row) => text(row, "kind"));
}
