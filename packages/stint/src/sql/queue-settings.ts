import type { Row, Run } from "../db/db.ts";
import { columns, flag, json, numberOrNull, orNull, readMany, readOne, text, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Admission } from "../model/admission.ts";
import type { Fair } from "../model/fairness.ts";
import type { DeclaredQueues, QueueSetting, ResolvedQueueChange } from "../model/queue-settings.ts";
import { auditColumns, type AuditEntry, type ChangeAudit } from "./audit.ts";

/** One change of the settings of a queue. */
export type QueueAuditEntry = AuditEntry & {
  readonly queue: string;
  /** Each changed setting with its value before and after. */
  readonly change: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
};

const selected = `
  name as queue, target_age_ms::float8 as "targetAgeMs", declared_target_age_ms::float8 as "declaredTargetAgeMs",
  admission, declared_admission as "declaredAdmission", fair, declared_fair as "declaredFair",
  aging_ms::float8 as "agingMs", declared_aging_ms::float8 as "declaredAgingMs",
  updated_at as "updatedAt", updated_by as "updatedBy"`;

/** JSON `false` arrives as a boolean. */
function toFair(row: Row, column: string): Fair {
  return row[column] === false ? false : json<Exclude<Fair, false>>(row, column);
}

const toSetting = columns<QueueSetting>({
  queue: text,
  targetAgeMs: numberOrNull,
  declaredTargetAgeMs: numberOrNull,
  admission: orNull(json<Admission>),
  declaredAdmission: orNull(json<Admission>),
  fair: orNull(toFair),
  declaredFair: orNull(toFair),
  agingMs: numberOrNull,
  declaredAgingMs: numberOrNull,
  updatedAt: time,
  updatedBy: text,
});

const declare = statement(
  "declare-queues",
  `
  with given as (
    select g.name, g.target_age_ms, c.admission, g.fair, g.aging_ms, q as before
    from jsonb_to_recordset($1::text::jsonb) as g (name text, target_age_ms bigint, admission jsonb, fair jsonb, aging_ms bigint)
    cross join lateral stint.checked_admission(g.name, g.admission) as c (admission)
    left join stint.queue q on q.name = g.name
    -- Unchanged declarations take no lock: all workers of a release start at once with the same ones.
    where q.name is null or q.declared_target_age_ms is distinct from g.target_age_ms or q.declared_admission is distinct from c.admission
      or q.declared_fair is distinct from g.fair or q.declared_aging_ms is distinct from g.aging_ms
  ), declared as (
    insert into stint.queue as q (
      name, target_age_ms, declared_target_age_ms, admission, declared_admission, fair, declared_fair, aging_ms, declared_aging_ms, updated_by)
    select name, target_age_ms, target_age_ms, admission, admission, fair, fair, aging_ms, aging_ms, $2 from given
    -- One order for all workers prevents deadlocks.
    order by name collate "C"
    on conflict (name) do update
      set target_age_ms = case when q.declared_target_age_ms is distinct from excluded.declared_target_age_ms
            then excluded.target_age_ms else q.target_age_ms end,
          declared_target_age_ms = excluded.declared_target_age_ms,
          admission = case when q.declared_admission is distinct from excluded.declared_admission
            then excluded.admission else q.admission end,
          declared_admission = excluded.declared_admission,
          fair = case when q.declared_fair is distinct from excluded.declared_fair then excluded.fair else q.fair end,
          declared_fair = excluded.declared_fair,
          aging_ms = case when q.declared_aging_ms is distinct from excluded.declared_aging_ms then excluded.aging_ms else q.aging_ms end,
          declared_aging_ms = excluded.declared_aging_ms,
          updated_at = clock_timestamp(), updated_by = excluded.updated_by
      where q.declared_target_age_ms is distinct from excluded.declared_target_age_ms
        or q.declared_admission is distinct from excluded.declared_admission
        or q.declared_fair is distinct from excluded.declared_fair
        or q.declared_aging_ms is distinct from excluded.declared_aging_ms
    returning name, target_age_ms, admission, fair, aging_ms
  ), changed as (
    select d.*, g.before
    from declared d
    join given g using (name)
  ), noted as (
    insert into stint.audit (id, actor, action, queue, change)
    select
      stint.new_id(), $2, 'declare-queue', c.name,
      jsonb_build_object('targetAgeMs', jsonb_build_object('from', (c.before).target_age_ms, 'to', c.target_age_ms))
        || case when (c.before).admission is not distinct from c.admission then '{}'
          else jsonb_build_object('admission', jsonb_build_object('from', (c.before).admission, 'to', c.admission)) end
        || case when (c.before).fair is not distinct from c.fair then '{}'
          else jsonb_build_object('fair', jsonb_build_object('from', (c.before).fair, 'to', c.fair)) end
        || case when (c.before).aging_ms is not distinct from c.aging_ms then '{}'
          else jsonb_build_object('agingMs', jsonb_build_object('from', (c.before).aging_ms, 'to', c.aging_ms)) end
    from changed c
  )
  select stint.order_changed(array_agg(c.name) filter (where c.fair <> 'false'))
  from changed c
  where (c.before).fair is distinct from c.fair or (c.before).aging_ms is distinct from c.aging_ms
  having count(*) > 0`,
);

/**
 * Write what code declares. A declaration that differs from the last one replaces the value in force, also after a live change;
 * one that does not differ writes nothing.
 */
export async function declareQueues(db: Run, queues: DeclaredQueues, actor: string): Promise<void> {
  const rows = [...queues].map(([name, { targetAgeMs, admission, fair, agingMs }]) => ({
    name,
    target_age_ms: targetAgeMs,
    admission,
    fair,
    aging_ms: agingMs,
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
  { auditId, actor, reason }: ChangeAudit,
): Promise<QueueSetting> {
  return await readOne(db, set, [queue, JSON.stringify(change), reason, actor, auditId], toSetting);
}

const forget = statement("forget-queue", `select stint.forget_queue($1, $2, $3, $4::uuid) as forgotten`);

/** Delete the settings of a name or pattern. Returns whether there were any. */
export async function forgetQueue(
  db: Run,
  queue: string,
  { auditId, actor, reason }: ChangeAudit,
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
  ...auditColumns,
  queue: text,
  change: json<QueueAuditEntry["change"]>,
});

/** Changes of the settings of one name or pattern, newest first. */
export async function queueAudit(db: Run, queue: string): Promise<QueueAuditEntry[]> {
  return await readMany(db, findAudit, [queue], toAuditEntry);
}
