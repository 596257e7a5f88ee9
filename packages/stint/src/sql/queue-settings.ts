import type { Run } from "../db/db.ts";
import { columns, flag, json, numberOrNull, readMany, readOne, text, textOrNull, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { DeclaredQueues, QueueSetting } from "../model/queue-settings.ts";
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
  updated_at as "updatedAt", updated_by as "updatedBy"`;

const toSetting = columns<QueueSetting>({
  queue: text,
  targetAgeMs: numberOrNull,
  declaredTargetAgeMs: numberOrNull,
  updatedAt: time,
  updatedBy: text,
});

const declare = statement(
  "declare-queues",
  `
  with given as (
    select g.name, g.target_age_ms, q.target_age_ms as before
    from jsonb_to_recordset($1::text::jsonb) as g (name text, target_age_ms bigint)
    left join stint.queue q on q.name = g.name
    -- Unchanged declarations take no lock: all workers of a release start at once with the same ones.
    where q.name is null or q.declared_target_age_ms is distinct from g.target_age_ms
  ), declared as (
    insert into stint.queue as q (name, target_age_ms, declared_target_age_ms, updated_by)
    select name, target_age_ms, target_age_ms, $2 from given
    -- One order for all workers prevents deadlocks.
    order by name collate "C"
    on conflict (name) do update
      set target_age_ms = excluded.target_age_ms, declared_target_age_ms = excluded.declared_target_age_ms,
          updated_at = clock_timestamp(), updated_by = excluded.updated_by
      where q.declared_target_age_ms is distinct from excluded.declared_target_age_ms
    returning name, target_age_ms
  )
  insert into stint.audit (id, actor, action, queue, change)
  select
    stint.new_id(), $2, 'declare-queue', d.name,
    jsonb_build_object('targetAgeMs', jsonb_build_object('from', g.before, 'to', d.target_age_ms))
  from declared d
  join given g using (name)`,
);

/**
 * Write what code declares. A declaration that differs from the last one replaces the value in force, also after a live change;
 * one that does not differ writes nothing.
 */
export async function declareQueues(db: Run, queues: DeclaredQueues, actor: string): Promise<void> {
  const rows = [...queues].map(([name, { targetAgeMs }]) => ({ name, target_age_ms: targetAgeMs }));
  await db.run(declare, [JSON.stringify(rows), actor]);
}

const set = statement(
  "set-queue",
  `select ${selected} from stint.set_queue($1, $2::text::jsonb, $3, $4, $5::uuid)`,
);

export async function setQueue(
  db: Run,
  queue: string,
  change: Readonly<Record<string, number | null>>,
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
