import type { Run } from "../db/db.ts";
import {
  columns,
  flag,
  json,
  numberOrNull,
  orNull,
  readMany,
  readOne,
  text,
  textOrNull,
  time,
} from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Admission } from "../model/admission.ts";
import type { DeclaredQueues, QueueSetting, ResolvedQueueChange } from "../model/queue-settings.ts";
import type { AuditEntry } from "./audit.ts";

/** Who changes a setting and why. A repeat with the same id changes nothing. */
export type QueueAudit = { readonly auditId: string; readonly actor: string; readonly reason: string };

/** One change of the settings of a queue. */
export type QueueAuditEntry = AuditEntry & {
  readonly queue: string;
  /** Each changed setting with its value before and after. */
  readonly change: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
};

const selected = `
  name as queue, target_age_ms::float8 as "targetAgeMs", declared_target_age_ms::float8 as "declaredTargetAgeMs",
  admission, declared_admission as "declaredAdmission",
  updated_at as "updatedAt", updated_by as "updatedBy"`;

const toSetting = columns<QueueSetting>({
  queue: text,
  targetAgeMs: numberOrNull,
  declaredTargetAgeMs: numberOrNull,
  admission: orNull(json<Admission>),
  declaredAdmission: orNull(json<Admission>),
  updatedAt: time,
  updatedBy: text,
});

const declare = statement(
  "declare-queues",
  `
  with given as (
    select g.name, g.target_age_ms, c.admission, q.target_age_ms as before, q.admission as admission_before
    from jsonb_to_recordset($1::text::jsonb) as g (name text, target_age_ms bigint, admission jsonb)
    cross join lateral stint.checked_admission(g.name, g.admission) as c (admission)
    left join stint.queue q on q.name = g.name
    -- Unchanged declarations take no lock: all workers of a release start at once with the same ones.
    where q.name is null or q.declared_target_age_ms is distinct from g.target_age_ms or q.declared_admission is distinct from c.admission
  ), declared as (
    insert into stint.queue as q (name, target_age_ms, declared_target_age_ms, admission, declared_admission, updated_by)
    select name, target_age_ms, target_age_ms, admission, admission, $2 from given
    -- One order for all workers prevents deadlocks.
    order by name collate "C"
    on conflict (name) do update
      set target_age_ms = case when q.declared_target_age_ms is distinct from excluded.declared_target_age_ms
            then excluded.target_age_ms else q.target_age_ms end,
          declared_target_age_ms = excluded.declared_target_age_ms,
          admission = case when q.declared_admission is distinct from excluded.declared_admission
            then excluded.admission else q.admission end,
          declared_admission = excluded.declared_admission,
          updated_at = clock_timestamp(), updated_by = excluded.updated_by
      where q.declared_target_age_ms is distinct from excluded.declared_target_age_ms
        or q.declared_admission is distinct from excluded.declared_admission
    returning name, target_age_ms, admission
  )
  insert into stint.audit (id, actor, action, queue, change)
  select
    stint.new_id(), $2, 'declare-queue', d.name,
    jsonb_build_object('targetAgeMs', jsonb_build_object('from', g.before, 'to', d.target_age_ms))
      || case when g.admission_before is not distinct from d.admission then '{}'
        else jsonb_build_object('admission', jsonb_build_object('from', g.admission_before, 'to', d.admission)) end
  from declared d
  join given g using (name)`,
);

/**
 * Write what code declares. A declaration that differs from the last one replaces the value in force, also after a live change;
 * one that does not differ writes nothing.
 */
export async function declareQueues(db: Run, queues: DeclaredQueues, actor: string): Promise<void> {
  const rows = [...queues].map(([name, { targetAgeMs, admission }]) => ({
    name,
    target_age_ms: targetAgeMs,
    admission,
  }));
  await db.run(declare, [JSON.stringify(rows), actor]);
}

const set = statement(
  "set-queue",
  `select ${selected} from stint.set_queue($1, $2::text::jsonb, $3, $4, $5::uuid)`,
);

export async function setQueue(
  db: Run,
  queue: string,
  change: ResolvedQueueChange,
  { auditId, actor, reason }: QueueAudit,
): Promise<QueueSetting> {
  return await readOne(db, set, [queue, JSON.stringify(change), reason, actor, auditId], toSetting);
}

const forget = statement("forget-queue", `select stint.forget_queue($1, $2, $3, $4::uuid) as forgotten`);

/** Delete the settings of a name or pattern. Returns whether there were any. */
export async function forgetQueue(
  db: Run,
  queue: string,
  { auditId, actor, reason }: QueueAudit,
): Promise<boolean> {
  return await readOne(db, forget, [queue, reason, actor, auditId], (row) => flag(row, "forgotten"));
}

const list = statement("queue-settings", `select ${selected} from stint.queue order by name`);

export async function queueSettings(db: Run): Promise<QueueSetting[]> {
  return await readMany(db, list, [], toSetting);
}

/** The newest changes are enough to find out who set a value and why. */
const mostShown = 100;

const findAudit = statement(
  "queue-audit",
  `
  select at, actor, action, reason, queue, change
  from stint.audit
  where queue = $1
  order by at desc, id desc
  limit ${mostShown}`,
);

const toAuditEntry = columns<QueueAuditEntry>({
  at: time,
  actor: text,
  action: text,
  reason: textOrNull,
  queue: text,
  change: json<QueueAuditEntry["change"]>,
});

/** Changes of the settings of one name or pattern, newest first. */
export async function queueAudit(db: Run, queue: string): Promise<QueueAuditEntry[]> {
  return await readMany(db, findAudit, [queue], toAuditEntry);
}
