import type { Row, Run } from "../db/db.ts";
import { readMany, text, textOrNull, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";

/** One thing that a person or a program did to a job from outside. */
export type AuditEntry = {
  readonly at: Date;
  readonly actor: string;
  readonly action: string;
  readonly reason: string | null;
};

const findAudit = statement(
  "audit",
  `select at, actor, action, reason from stint.audit where job_id = $1 order by at, id`,
);

/** What was done to a job, oldest first. */
export async function auditOf(db: Run, jobId: string): Promise<AuditEntry[]> {
  return await readMany(db, findAudit, [jobId], toEntry);
}

function toEntry(row: Row): AuditEntry {
  return {
    at: time(row, "at"),
    actor: text(row, "actor"),
    action: text(row, "action"),
    reason: textOrNull(row, "reason"),
  };
}

/** When a job was replayed, oldest first. */
export function replaysIn(audit: readonly AuditEntry[]): Date[] {
  return audit.filter(({ action }) => action === "replay").map(({ at }) => at);
}
