import type { Run } from "../db/db.ts";
import {
  columns,
  flag,
  json,
  number,
  numberOrNull,
  readMany,
  readMaybe,
  readOne,
  text,
  textOrNull,
  texts,
  time,
  timeOrNull,
} from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { auditColumns, type AuditEntry, type ChangeAudit } from "./audit.ts";
import { fenceValues } from "./fences.ts";
import type { IdleCheckPart } from "./idle-check.ts";

/** A limit in force. */
export type Limit = {
  /** A rule such as `kind:charge`, or one key of a rule, such as `key:account=42`. */
  readonly name: string;
  readonly max: number;
  /** The value that code declared last; null: none did. */
  readonly declaredMax: number | null;
  readonly updatedAt: Date;
  readonly updatedBy: string;
};

/** One key that jobs hold or wait for. */
export type LimitKey = {
  /** Of a rule without keys, its name. Ordered keys begin with `order:` or `pass:`. */
  readonly key: string;
  /** Null: no limit is in force any more. */
  readonly max: number | null;
  readonly held: number;
  readonly waiting: number;
  /** Since when the first of the waiting jobs waits. */
  readonly waitingSince: Date | null;
  /** The job that has the turn of an ordered key; null for other keys, or while no job has it. */
  readonly holder: string | null;
};

/** One change of a limit. */
export type LimitAuditEntry = AuditEntry & {
  readonly limit: string;
  readonly change: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
};

const selected = `l.name, l.max, l.declared_max as "declaredMax", l.updated_at as "updatedAt", l.updated_by as "updatedBy"`;

const toLimit = columns<Limit>({
  name: text,
  max: number,
  declaredMax: numberOrNull,
  updatedAt: time,
  updatedBy: text,
});

const declare = statement("declare-limits", `select stint.declare_limits($1::text::jsonb, $2, $3::text[])`);

/**
 * Write the limits that the code of these kinds declares. Those that earlier code declared for these kinds alone, and that are missing now, are removed.
 * A declaration that does not differ from the last one writes nothing.
 */
export async function declareLimits(
  db: Run,
  limits: ReadonlyMap<string, number>,
  kinds: readonly string[],
  actor: string,
): Promise<void> {
  await db.run(declare, [JSON.stringify(Object.fromEntries(limits)), actor, kinds]);
}

/** The rules that a worker applies to jobs which carry no keys: those of queues, kinds and tenants, also where only one tenant has a limit. */
export const limitRules = `array(select distinct stint.rule_of(name) from stint.limit where name !~ '^key:')`;

const tend = statement(
  "tend-limits",
  `
  select stint.tend_limits($1) as more, ${limitRules} as rules,
    array(select s.name from stint.limit_share s where s.worker = $2 and s.closed and s.name !~ '=') as closed`,
);

/** What upkeep learns of limits. */
export type TendedLimits = {
  /** Some key has to be looked at again soon. */
  readonly more: boolean;
  readonly rules: readonly string[];
  /** The limits of which this worker has a closed share whose jobs have not all ended. */
  readonly closedShares: readonly string[];
};

/** Let in jobs that were missed; with `all`, wherever there is room. */
export async function tendLimits(db: Run, all: boolean, worker: string): Promise<TendedLimits> {
  return await readOne(db, tend, [all, worker], (row) => ({
    more: flag(row, "more"),
    rules: texts(row, "rules"),
    closedShares: texts(row, "closed"),
  }));
}

const count = statement("count-running", `select stint.count_running($1::text[], $2::uuid[], $3::uuid[])`);

/** Let the limits of these rules count running jobs, also beyond their max: those that began before the worker knew of them. */
export async function countRunning(
  db: Run,
  fences: readonly Fence[],
  rules: readonly string[],
): Promise<void> {
  const [ids, , leases] = fenceValues(fences);
  await db.run(count, [rules, ids, leases]);
}

/** Whether there are limits, places or keys to look at again: 0 if some key was missed. */
export const limitsInUse: IdleCheckPart = {
  sql: `
      select case
        when exists (select from stint.limit_missed) then 0
        when exists (select from stint.limit_place) or exists (select from stint.limit) then 15000
      end`,
  endsSleep: false,
};

const list = statement("limits", `select ${selected} from stint.limit l order by l.name`);

export async function limits(db: Run): Promise<Limit[]> {
  return await readMany(db, list, [], toLimit);
}

const listKeys = statement(
  "limit-keys",
  `
  select
    k.key, stint.max_of(k.key) as max, k.held, k.waiting, k.since as "waitingSince", k.holder,
    (sum(k.held + k.waiting) over ())::integer as places
  from (
    select
      p.key, count(*) filter (where p.holds)::integer as held, count(*) filter (where not p.holds)::integer as waiting,
      min(p.at) filter (where not p.holds) as since,
      (array_agg(p.job_id::text) filter (where p.holds and p.ordered is not null))[1] as holder
    from (
      (
        select p.key, p.holds, p.at, p.job_id, p.ordered
        from stint.limit_place p
        where $3::text is null or position(lower($3) in lower(p.key)) > 0
        limit $4
      )
      union all
      -- Running jobs in the shares of their workers have no places of their own.
      select k.key, true, j.claimed_at, j.id, null
      from stint.limit_share s
      join stint.job j on j.state = 'running' and j.worker = s.worker
      cross join lateral unnest(
        j.limits || array['queue:' || j.queue, 'kind:' || j.kind, 'tenant:' || j.kind || '=' || j.tenant, 'tenant:*=' || j.tenant]) as k (key)
      where stint.rule_of(k.key) = s.name and not exists (select from stint.limit_place p where p.job_id = j.id and p.key = k.key)
    ) p
    where ($1::text is null or p.key = $1 or starts_with(p.key, $1 || '=')) and ($3::text is null or position(lower($3) in lower(p.key)) > 0)
    group by p.key
  ) k
  order by k.waiting desc, k.held desc, k.key
  limit $2`,
);

const toKey = columns<LimitKey>({
  key: text,
  max: numberOrNull,
  held: number,
  waiting: number,
  waitingSince: timeOrNull,
  holder: textOrNull,
});

export type LimitKeysOptions = {
  /** Only this rule or key. */
  readonly name?: string | undefined;
  /** Only keys that contain this text, case-insensitive. */
  readonly search?: string | undefined;
  readonly limit: number;
  /** Places that are read. Beyond it, counts are too low and keys may be missing. Default: all. */
  readonly mostPlaces?: number | undefined;
};

/** The keys that jobs hold or wait for, those with the most waiting jobs first. `places`: how many were read, of all keys. */
export async function limitKeys(
  db: Run,
  { name, search, limit, mostPlaces }: LimitKeysOptions,
): Promise<{ keys: LimitKey[]; places: number }> {
  const values = [name ?? null, limit, search ?? null, mostPlaces ?? null];
  const found = await readMany(db, listKeys, values, (row) => ({
    key: toKey(row),
    places: number(row, "places"),
  }));
  return { keys: found.map(({ key }) => key), places: found[0]?.places ?? 0 };
}

const set = statement(
  "set-limit",
  `select ${selected} from stint.set_limit($1, $2::integer, $3, $4, $5::uuid) l where l.name is not null`,
);

/** Change a limit; null returns it to the declared value, or removes it. Undefined: there is none now. */
export async function setLimit(
  db: Run,
  name: string,
  max: number | null,
  { auditId, actor, reason }: ChangeAudit,
): Promise<Limit | undefined> {
  return await readMaybe(db, set, [name, max, reason, actor, auditId], toLimit);
}

const pass = statement("pass-order", `select stint.pass_order($1, $2, $3, $4::uuid)::text as job`);

/** Take the turn of an ordered key from its dead job. Returns the job; null: no dead job blocks the key. */
export async function passOrder(
  db: Run,
  key: string,
  { auditId, actor, reason }: ChangeAudit,
): Promise<string | null> {
  return await readOne(db, pass, [key, reason, actor, auditId], (row) => textOrNull(row, "job"));
}

const findAudit = statement(
  "limit-audit",
  `
  select at, actor, action, reason, limit_name as limit, change
  from stint.audit
  where limit_name = $1
  order by at desc, id desc
  limit 100`,
);

const toAuditEntry = columns<LimitAuditEntry>({
  ...auditColumns,
  limit: text,
  change: json<LimitAuditEntry["change"]>,
});

/** The newest 100 changes of a limit, newest first. */
export async function limitAudit(db: Run, name: string): Promise<LimitAuditEntry[]> {
  return await readMany(db, findAudit, [name], toAuditEntry);
}
