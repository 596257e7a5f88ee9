import type { Run } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { readOne, textOrNull } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { calledInside, readInside, type InsideStatement } from "./inside.ts";
import type { AuditInfo } from "./transitions.ts";

const completion = `stint.complete_waiting($1::uuid, $2::text::jsonb, $3::uuid, $4::text, $5::text, $6::timestamptz)`;
const completeJob = statement("complete", `select ${completion} as kind`);
const completeInside = statement("complete-inside", calledInside(completion, "$7"));

const valuesOf = (
  id: string,
  result: string | null,
  { auditId, actor, reason, until }: AuditInfo,
): unknown[] => [id, result, auditId, actor, reason, until === undefined ? null : toTimestamp(until)];

/** End a waiting job as succeeded, with this result (JSON text). Returns its kind; undefined if the job does not wait. */
export async function completeWaiting(
  db: Run,
  id: string,
  result: string | null,
  audit: AuditInfo,
): Promise<string | undefined> {
  const kind = await readOne(db, completeJob, valuesOf(id, result, audit), (row) => textOrNull(row, "kind"));
  return kind ?? undefined;
}

/** The same within the transaction `xid`. `read` returns whether the job waited. */
export function completeStatementInside(
  id: string,
  result: string | null,
  audit: AuditInfo,
  xid: string | undefined,
): InsideStatement<boolean> {
  return {
    statement: completeInside,
    values: [...valuesOf(id, result, audit), xid ?? null],
    read: (rows) => {
      const done = readInside(rows);
      return done === undefined ? undefined : done.result !== null;
    },
  };
}
