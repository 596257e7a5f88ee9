import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

/** What happened to the jobs of one kind in one queue, to be added to the steps of this moment. What is left out is zero. */
export type SeriesRow = {
  readonly queue: string;
  readonly kind: string;
  readonly wait?: readonly number[];
  readonly wait_ms?: number;
  readonly run?: readonly number[];
  readonly run_ms?: number;
} & { readonly [counter in SeriesCounter]?: number };

export const seriesCounters = [
  "arrived",
  "claimed",
  "succeeded",
  "failed",
  "timed_out",
  "retried",
  "dead",
  "cancelled",
  "snoozed",
  "released",
  "rescued",
  "lease_lost",
  "slow",
  "attempts_of_succeeded",
] as const;
export type SeriesCounter = (typeof seriesCounters)[number];

export type TenantRow = { readonly tenant: string; readonly ended: number; readonly run_ms: number };

/** How a worker is. `lagMs`: how late its event loop was at worst since it last said. */
export type Vitals = {
  readonly busy: number;
  readonly slots: number;
  /** Claimed and waiting for a slot. */
  readonly waiting: number;
  readonly lagMs: number;
  readonly rssBytes: number;
};

/** One more than the bounds of the histogram; the last bucket is open. */
const buckets = 21;

/** Bucket by bucket, as plain sums: an aggregate of arrays would call a function for every row. */
const sumOf = (column: string): string =>
  `array[${Array.from({ length: buckets }, (_, n) => `coalesce(sum(${column}[${n + 1}]), 0)::float8`).join(", ")}]`;

/** How long the runs of each kind lasted within the last day. */
export const usualRuns = (kinds: string): string => `
    select s.kind, ${sumOf("s.run")} as run
    from stint.series s
    where s.step = 3600 and s.at > statement_timestamp() - interval '1 day'${kinds}
    group by s.kind`;

const flushSignals = statement(
  "flush",
  `
  with said as (
    update stint.worker set vitals = $2::text::jsonb, seen_at = clock_timestamp() where id = $1
  )
  select
    stint.record_series($3::text::jsonb),
    stint.record_tenants($4::text::jsonb),
    (select jsonb_object_agg(usual.kind, usual.run) from (${usualRuns(" and s.kind = any ($5::text[])")}) usual) as usual`,
);

/** How often runs lasted how long, by kind. */
export type Runs = ReadonlyMap<string, readonly number[]>;

/** Say what happened and how this worker is. Answers how long runs of these kinds lasted within the last day. */
export async function flush(
  db: Run,
  input: {
    worker: string;
    vitals: Vitals;
    rows: readonly SeriesRow[];
    tenants: readonly TenantRow[];
    kinds: readonly string[];
  },
): Promise<Runs> {
  const { worker, vitals, rows, tenants, kinds } = input;
  const values = [worker, JSON.stringify(vitals), JSON.stringify(rows), JSON.stringify(tenants), kinds];
  const [row] = await db.run(flushSignals, values);
  return new Map(Object.entries((row?.["usual"] ?? {}) as Record<string, number[]>));
}

const selectUsual = statement("usual", usualRuns(""));

/** How long the runs of every kind lasted within the last day. */
export async function usual(db: Run): Promise<Runs> {
  return new Map(
    (await db.run(selectUsual, [])).map((row) => [row["kind"] as string, row["run"] as number[]]),
  );
}

/** What happened within a step, of what was asked for. */
export type SeriesSums = { readonly [counter in SeriesCounter]: number } & {
  readonly wait: readonly number[];
  readonly run: readonly number[];
};

export type SeriesStep = SeriesSums & {
  readonly at: Date;
  readonly ready: number | null;
  readonly running: number | null;
  readonly oldestReadyMs: number | null;
};

const sums = `
    ${seriesCounters.map((counter) => `coalesce(sum(s.${counter}), 0)::float8 as ${counter}`).join(", ")},
    ${sumOf("s.wait")} as wait, ${sumOf("s.run")} as run`;

const sampled = `
    sum(s.ready)::float8 as ready, sum(s.running)::float8 as running, max(s.oldest_ready_ms) as "oldestReadyMs"`;

const selectSteps = statement(
  "series",
  `
  select s.at, statement_timestamp() as now, ${sums}, ${sampled}
  from stint.series s
  where s.step = $1
    and s.at > stint.by_index(statement_timestamp() - $2::bigint * interval '1 millisecond')
    and ($3::text is null or s.queue = $3)
    and ($4::text is null or s.kind = $4)
  group by s.at`,
);

/** The steps of so long a time in which something happened, in no order, and the database's time. */
export async function seriesSteps(
  db: Run,
  input: { stepSeconds: number; backMs: number; queue: string | null; kind: string | null },
): Promise<(SeriesStep & { readonly now: Date })[]> {
  const { stepSeconds, backMs, queue, kind } = input;
  return (await db.run(selectSteps, [stepSeconds, backMs, queue, kind])) as (SeriesStep & { now: Date })[];
}

export type QueueStep = SeriesStep & { readonly step: 10 | 60; readonly queue: string };

const selectLately = statement(
  "lately",
  `
  select s.step, s.at, s.queue, ${sums}, ${sampled}
  from (values (10, interval '60 seconds'), (60, interval '29 minutes')) as w (step, back)
  join stint.series s
    on s.step = w.step and s.at >= stint.by_index(stint.step_of(statement_timestamp(), w.step) - w.back)
  group by s.step, s.at, s.queue`,
);

/** By queue: the last minute in steps of ten seconds, and the last half hour in steps of a minute; with the step that has just begun. */
export async function lately(db: Run): Promise<QueueStep[]> {
  return (await db.run(selectLately, [])) as QueueStep[];
}

export type Recent = SeriesSums & { readonly queue: string; readonly kind: string; readonly seconds: number };

const selectRecent = statement(
  "recent",
  `
  select
    s.queue, s.kind, ${sums}, extract(epoch from clock_timestamp() - w.since)::float8 as seconds
  from (select stint.step_of(statement_timestamp(), $1) - $2::bigint * interval '1 millisecond' as since) w
  join stint.series s on s.step = $1 and s.at >= w.since
  group by s.queue, s.kind, w.since`,
);

/** What happened to each kind in each queue since the step that began so long before the present one, and how long that is. */
export async function recent(db: Run, stepSeconds: number, backMs: number): Promise<Recent[]> {
  return (await db.run(selectRecent, [stepSeconds, backMs])) as Recent[];
}

export type TenantUsage = { readonly tenant: string; readonly ended: number; readonly runMs: number };

const selectTenants = statement(
  "top-tenants",
  `
  select tenant, sum(ended)::float8 as ended, sum(run_ms)::float8 as "runMs"
  from stint.tenant_usage
  where at > statement_timestamp() - interval '1 hour'
  group by tenant
  order by 2 desc, 1
  limit 20`,
);

/** Those whose attempts ended most often in the last hour. */
export async function topTenants(db: Run): Promise<TenantUsage[]> {
  return (await db.run(selectTenants, [])) as TenantUsage[];
}
