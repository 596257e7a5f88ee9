import type { Run } from "../db/db.ts";
import { columns, json, orNull, readMany, text, textOrNull, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";

/** One thing that a person or a program did to a job from outside. */
export type AuditEntry = {
  readonly at: Date;
  readonly actor: string;
  readonly action: string;
  readonly reason: string | null;
};

/** The audit of a change of a setting, a limit, a pause or a dependency. The id is the same at every send of it. */
export type ChangeAudit = { readonly auditId: string; readonly actor: string; readonly reason: string };

/** The columns that every entry of the audit has. */
export const auditColumns = { at: time, actor: text, action: text, reason: textOrNull } as const;

const findAudit = statement(
  "audit",
  `select at, actor, action, reason from stint.audit where job_id = $1 order by at, id`,
);

/** What was done to a job, oldest first. */
export async function auditOf(db: Run, jobId: string): Promise<AuditEntry[]> {
  return await readMany(db, findAudit, [jobId], toEntry);
}

const toEntry = columns<AuditEntry>(auditColumns);

/** A change of a queue setting, a limit, a pause or a dependency. */
export type ControlChange = AuditEntry & {
  /** What it is about, such as `queue:emails`, `kind:charge` or `tenant:acme`. */
  readonly subject: string;
  /** Each changed value, before and after. */
  readonly change: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>> | null;
};

const findChanges = statement(
  "control-changes",
  `
  select at, actor, action, reason, coalesce('queue:' || queue, limit_name, subject) as subject, change
  from stint.audit
  where queue is not null or limit_name is not null or subject is not null
  order by at desc, id desc
  limit $1`,
);

const toChange = columns<ControlChange>({
  ...auditColumns,
  subject: text,
  change: orNull(json<NonNullable<ControlChange["change"]>>),
});

/** The newest changes of settings, limits and pauses, newest first. */
export async function controlChanges(db: Run, limit: number): Promise<ControlChange[]> {
  return await readMany(db, findChanges, [limit], toChange);
}

/** When a job was replayed, oldest first. */
export function replaysIn(audit: readonly AuditEntry[]): Date[] {
  return audit.filter(({ action }) => action === "replay").map(({ at }) => at);
}
