import type { Run } from "../db/db.ts";
import {
  columns,
  flag,
  json,
  number,
  numberOrNull,
  orNull,
  readMany,
  readOne,
  text,
  texts,
  time,
  timeOrNull,
} from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { DeclaredDependencies, DependencySettings } from "../model/dependencies.ts";
import { auditColumns, type AuditEntry, type ChangeAudit } from "./audit.ts";
import type { IdleCheckPart } from "./idle-check.ts";

/** A dependency, its settings in force, and what is left of them now. */
export type DependencyStatus = {
  readonly name: string;
  readonly settings: DependencySettings;
  /** The settings that code declared last; null: none did. */
  readonly declared: DependencySettings | null;
  /** The concurrency now: lowered after a `RateLimitedError`, then raised step by step; null: not limited. */
  readonly effectiveConcurrency: number | null;
  /** Tokens in the bucket; null: it has no rate. */
  readonly tokens: number | null;
  /** When the bucket gets its next token; null: it is full, or has no rate. */
  readonly nextTokenAt: Date | null;
  /** What is left of the quota until `quotaResetsAt`; null: it has no quota. */
  readonly quotaLeft: number | null;
  readonly quotaResetsAt: Date | null;
  /** No job that uses it starts before, because it returned a `RateLimitedError`; null: it did not. */
  readonly slowUntil: Date | null;
  readonly isPaused: boolean;
  /** Jobs that use it and run. Counted only while its concurrency is limited. */
  readonly running: number;
  /** Jobs that wait for its tokens or for a place, counted up to 10,000. */
  readonly waiting: number;
  /** When the next of the waiting jobs may start, as far as is known; null: none waits. */
  readonly nextAt: Date | null;
  /** The kinds that use it. */
  readonly kinds: readonly string[];
  readonly updatedAt: Date;
  readonly updatedBy: string;
};

/** One change of a dependency. */
export type DependencyAuditEntry = AuditEntry & {
  readonly change: Readonly<Record<string, { readonly from: unknown; readonly to: unknown }>>;
};

const declare = statement(
  "declare-dependencies",
  `select stint.declare_dependencies($1::text::jsonb, $2::text::jsonb, $3) as known`,
);

/** Write what code declares, and the dependencies of each kind. Returns the names of all dependencies. */
export async function declareDependencies(
  db: Run,
  declared: DeclaredDependencies,
  uses: ReadonlyMap<string, readonly string[]>,
  actor: string,
): Promise<string[]> {
  const values = [declared, uses].map((map) => JSON.stringify(Object.fromEntries(map)));
  return await readOne(db, declare, [...values, actor], (row) => texts(row, "known"));
}

const mostCounted = 10_000;

const list = statement(
  "dependencies",
  `
  select
    d.name, d.settings, d.declared, d.effective as "effectiveConcurrency", stint.tokens_of(d, at)::float8 as tokens,
    case
      when stint.tokens_of(d, at) < (d.settings #>> '{rate,burst}')::numeric then at + interval '1 microsecond' * ceil((
        (stint.tokens_of(d, at) + 1) * (d.settings #>> '{rate,perMs}')::numeric * 1000 - stint.credit_of(d, at)
      ) / (d.settings #>> '{rate,limit}')::numeric)::float8
    end as "nextTokenAt",
    stint.quota_left(d, at)::float8 as "quotaLeft", stint.quota_end(d, at) as "quotaResetsAt",
    case when d.slow_until > at then d.slow_until end as "slowUntil", stint.is_paused_dependency(d.name) as "isPaused",
    (select count(*) from stint.limit_place p where p.key = 'dependency:' || d.name and p.holds)::integer as running,
    (
      (select count(*) from (select from stint.dependency_wait w where w.dependency = d.name and w.let_in_at is null limit ${mostCounted}) waiting)
      + (select count(*) from (select from stint.limit_place p where p.key = 'dependency:' || d.name and not p.holds limit ${mostCounted}) waiting)
    )::integer as waiting,
    case when exists (select from stint.dependency_wait w where w.dependency = d.name and w.let_in_at is null) then d.next_at end as "nextAt",
    array(select k.kind from stint.kind_dependency k where k.dependency = d.name order by k.kind) as kinds,
    d.updated_at as "updatedAt", d.updated_by as "updatedBy"
  from stint.dependency d, clock_timestamp() as at
  where $1::text is null or d.name = $1
  order by d.name
  limit 1000`,
);

const toDependency = columns<DependencyStatus>({
  name: text,
  settings: json<DependencySettings>,
  declared: orNull(json<DependencySettings>),
  effectiveConcurrency: numberOrNull,
  tokens: numberOrNull,
  nextTokenAt: timeOrNull,
  quotaLeft: numberOrNull,
  quotaResetsAt: timeOrNull,
  slowUntil: timeOrNull,
  isPaused: flag,
  running: number,
  waiting: number,
  nextAt: timeOrNull,
  kinds: texts,
  updatedAt: time,
  updatedBy: text,
});

/** Every dependency, at most 1,000; with a name, only that one. */
export async function dependencies(db: Run, name: string | null = null): Promise<DependencyStatus[]> {
  return await readMany(db, list, [name], toDependency);
}

const delays = statement(
  "dependency-delays",
  `select n.name, stint.dependency_delay(n.name) as "delayMs" from unnest($1::text[]) as n (name)`,
);

const toDelay = columns<{ name: string; delayMs: number }>({ name: text, delayMs: number });

/** About how long a new job would wait for tokens of each of these dependencies. */
export async function dependencyDelays(
  db: Run,
  names: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (names.length === 0) return new Map();
  const found = await readMany(db, delays, [names], toDelay);
  return new Map(found.map(({ name, delayMs }) => [name, delayMs]));
}

const set = statement("set-dependency", `select stint.set_dependency($1, $2::text::jsonb, $3, $4, $5::uuid)`);

/** A part that is null is removed. Null instead of a change returns to what code declared. */
export type DependencyChange = {
  readonly [part in keyof DependencySettings]: DependencySettings[part] | null;
};

export async function setDependency(
  db: Run,
  name: string,
  change: DependencyChange | null,
  { auditId, actor, reason }: ChangeAudit,
): Promise<void> {
  const text = change === null ? null : JSON.stringify(change);
  await db.run(set, [name, text, reason, actor, auditId]);
}

const findAudit = statement(
  "dependency-audit",
  `
  select at, actor, action, reason, change
  from stint.audit
  where subject = 'dependency:' || $1
  order by at desc, id desc
  limit 100`,
);

const toAuditEntry = columns<DependencyAuditEntry>({
  ...auditColumns,
  change: json<DependencyAuditEntry["change"]>,
});

/** The newest 100 changes and pauses of a dependency, newest first. */
export async function dependencyAudit(db: Run, name: string): Promise<DependencyAuditEntry[]> {
  return await readMany(db, findAudit, [name], toAuditEntry);
}

// ---- For workers ----

const tend = statement("tend-dependencies", `select t.queues, t.next_ms from stint.tend_dependencies() t`);

/** Make jobs ready that waited for tokens which are there now. `queues` has the queue of each of them. `nextMs`: until there is more to do; null: nothing waits. */
export async function tendDependencies(db: Run): Promise<{ queues: string[]; nextMs: number | null }> {
  return await readOne(db, tend, [], (row) => ({
    queues: texts(row, "queues"),
    nextMs: numberOrNull(row, "next_ms"),
  }));
}

/** How long until a job that waits for tokens may start, or a lowered concurrency is raised. The table has one row for each dependency. */
export const nextTokens: IdleCheckPart = {
  sql: `select extract(epoch from min(d.next_at) - clock_timestamp()) * 1000 from stint.dependency d`,
  endsSleep: true,
};

const slow = statement(
  "slow-dependencies",
  `select stint.slow_dependencies($1::text[], $2::bigint, $3::timestamptz, $4::timestamptz)`,
);

/** Hold back the jobs that use these dependencies. `since`: when the job that was refused took its tokens. No effect after `before`. */
export async function slowDependencies(
  db: Run,
  names: readonly string[],
  ms: number,
  since: string,
  before: string,
): Promise<void> {
  await db.run(slow, [names, Math.ceil(ms), since, before]);
}
