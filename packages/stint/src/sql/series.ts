import type { Run } from "../db/db.ts";
import {
  columns,
  json,
  number,
  numberOrNull,
  orNull,
  readMany,
  readMaybe,
  readOne,
  text,
  textOrNull,
  time,
  type ColumnReader,
} from "../db/row.ts";
import { statement, type Statement } from "../db/statement.ts";
import { counterNames, type Counter } from "../model/counters.ts";
import { duplicateStatuses, type DuplicateStatus } from "../model/enqueue-status.ts";

/** What happened to the jobs of one kind in one queue, to be added to the current step. An absent property is zero. */
export type SeriesRow = {
  readonly queue: string;
  readonly kind: string;
  readonly wait?: readonly number[];
  readonly waitMs?: number;
  readonly longestWaitMs?: number;
  readonly run?: readonly number[];
  readonly runMs?: number;
} & { readonly [counter in SeriesCounter]?: number };

/** The counters of `model/counters.ts`, and what folds count. */
export type SeriesCounter = Counter | DuplicateStatus | "arrived";
export const seriesCounters: readonly SeriesCounter[] = ["arrived", ...duplicateStatuses, ...counterNames];

/** The column of a property: `run_ms` for `runMs`. */
export function columnOf(property: string): string {
  return property.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function toColumns(row: SeriesRow): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).map(([property, value]) => [columnOf(property), value]));
}

export type TenantRow = { readonly tenant: string; readonly ended: number; readonly run_ms: number };

/** The state that a worker reports. `lagMs`: the worst delay of its event loop since its last report. */
export type Vitals = {
  readonly busy: number;
  readonly slots: number;
  /** Claimed jobs that wait for a slot. */
  readonly waiting: number;
  readonly lagMs: number;
  readonly rssBytes: number;
  /** The share of the time since its last report in which its event loop was busy, from 0 to 1. Workers before this field leave it out. */
  readonly loop?: number;
};

/** The bounds of the histogram, and one bucket for larger values. */
const buckets = 21;

/** One plain sum for each bucket: `stint.sum_buckets` would call a function for every row. */
const sumOf = (column: string): string =>
  `array[${Array.from({ length: buckets }, (_, n) => `coalesce(sum(${column}[${n + 1}]), 0)::float8`).join(", ")}]`;

export const steps = [10, 60, 600, 3_600] as const;
/** The length of a step in seconds. */
export type Step = (typeof steps)[number];

/**
 * The rows since a time, in steps of at most this length. The newest row of a step says how far it is rolled up; later rows are taken from the
 * narrower steps.
 */
const pointsSince = (step: Step, since: string): string => {
  const own = `
    select s.* from stint.series s where s.step = ${step} and s.at >= stint.by_index(${since})`;
  const narrower = steps[steps.indexOf(step) - 1];
  if (narrower === undefined) return own;
  const rolledUp = `(
      select s.at + interval '${step} seconds' from stint.series s where s.step = ${step} order by s.at desc limit 1)`;
  return `${own}
    union all ${pointsSince(narrower, `greatest(${since}, ${rolledUp})`)}`;
};

/** The run times of each kind within the last day. */
export const dayOfRuns = (kinds: string): string => `
    select s.kind, ${sumOf("s.run")} as run
    from (${pointsSince(3_600, "statement_timestamp() - interval '1 day'")}) s
    where s.run is not null${kinds}
    group by s.kind`;

const flushSeries = statement(
  "flush",
  `
  with said as (
    update stint.worker set vitals = $2::text::jsonb, seen_at = clock_timestamp() where id = $1
  )
  select
    stint.record_series($3::text::jsonb),
    stint.record_tenants($4::text::jsonb),
    (select jsonb_object_agg(r.kind, r.run) from (${dayOfRuns(" and s.kind = any ($5::text[])")}) r) as runs,
    (extract(epoch from clock_timestamp()) * 1000)::float8 as now_ms`,
);

/** The histogram of run times of each kind. */
export type Runs = ReadonlyMap<string, readonly number[]>;

/** Send counts and the state of a worker. Returns the run times of these kinds within the last day, and the database's time. */
export async function flush(
  db: Run,
  input: {
    worker: string;
    vitals: Vitals;
    rows: readonly SeriesRow[];
    tenants: readonly TenantRow[];
    kinds: readonly string[];
  },
): Promise<{ runs: Runs; nowMs: number }> {
  const { worker, vitals, rows, tenants, kinds } = input;
  const values = [
    worker,
    JSON.stringify(vitals),
    JSON.stringify(rows.map(toColumns)),
    JSON.stringify(tenants),
    kinds,
  ];
  return await readOne(db, flushSeries, values, (row) => ({
    runs: new Map(Object.entries(runsOrNull(row, "runs") ?? {})),
    nowMs: number(row, "now_ms"),
  }));
}

const runsOrNull = orNull(json<Record<string, number[]>>);

const rollUp = statement("roll-up", `select stint.roll_up_series()`);

/** Roll up steps that are over. Folds do it as well. */
export async function rollUpSeries(db: Run): Promise<void> {
  await db.run(rollUp, []);
}

const selectRuns = statement("runs", dayOfRuns(""));

/** The run times of every kind within the last day. */
export async function recentRuns(db: Run): Promise<Runs> {
  return new Map(
    await readMany(db, selectRuns, [], (row) => [text(row, "kind"), json<number[]>(row, "run")]),
  );
}

/** The sums of the selected rows. */
export type SeriesSums = SeriesCounts & {
  readonly wait: readonly number[];
  readonly run: readonly number[];
  /** Null: no attempt started. */
  readonly longestWaitMs: number | null;
};

export type SeriesStep = SeriesSums & { readonly at: Date };

const sums = `
    ${seriesCounters.map((counter) => `coalesce(sum(s.${columnOf(counter)}), 0)::float8 as "${counter}"`).join(", ")},
    ${sumOf("s.wait")} as wait, ${sumOf("s.run")} as run, max(s.longest_wait_ms) as "longestWaitMs"`;

/** One statement for each step. */
const byStep = (name: string, text: (step: Step) => string): ReadonlyMap<Step, Statement> =>
  new Map(steps.map((step) => [step, statement(`${name}-${step}`, text(step))]));

const backTo = `statement_timestamp() - $1::bigint * interval '1 millisecond'`;

const selectSteps = byStep(
  "series",
  (step) => `
  select stint.step_of(s.at, ${step}) as at, statement_timestamp() as now, ${sums}
  from (${pointsSince(step, backTo)}) s
  where ($2::text is null or s.queue = $2)
    and ($3::text is null or s.kind = $3)
  group by 1`,
);

/** Which part of the series to read. Null: all queues, all kinds. */
export type SeriesInput = { stepSeconds: Step; backMs: number; queue: string | null; kind: string | null };

const sumColumns: { readonly [Name in keyof SeriesSums]: ColumnReader<SeriesSums[Name]> } = {
  ...(Object.fromEntries(seriesCounters.map((counter) => [counter, number])) as Record<
    SeriesCounter,
    ColumnReader<number>
  >),
  wait: json<number[]>,
  run: json<number[]>,
  longestWaitMs: numberOrNull,
};
const toStep = columns<SeriesStep & { readonly now: Date }>({ ...sumColumns, at: time, now: time });

/** The steps with counts within `backMs`, unordered, and the database's time. */
export async function seriesSteps(
  db: Run,
  { stepSeconds, backMs, queue, kind }: SeriesInput,
): Promise<(SeriesStep & { readonly now: Date })[]> {
  return await readMany(db, of(selectSteps, stepSeconds), [backMs, queue, kind], toStep);
}

const toSample = columns({
  /** Null: all queues together; no other sample of the same time exists. */
  queue: textOrNull,
  /** When the step ended. */
  at: time,
  /** Null: the selected kind was not sampled here. */
  ready: numberOrNull,
  running: numberOrNull,
  oldestReadyMs: numberOrNull,
});
/** The depth of a queue at the end of a step. The age is that of the whole queue. */
export type Sample = ReturnType<typeof toSample>;

// From the start of an hour, because all queues are sampled once in each hour.
const sampledSince = (step: Step): string => pointsSince(step, `stint.step_of(${backTo}, 3600)`);

// An hour holds a sample of every queue, so for all queues the database adds them up: one row for each queue would be millions. The newest
// hour stays by queue, because the narrower steps after it carry each queue forward.
const selectSamples = byStep(
  "samples",
  (step) => `
  select
    case when $2::text is not null or s.step < 3600 or s.at = newest.at then s.queue end as queue,
    s.at + s.step * interval '1 second' as at,
    sum(s.ready) filter (where $3::text is null or s.kind = $3)::float8 as ready,
    sum(s.running) filter (where $3::text is null or s.kind = $3)::float8 as running,
    max(s.oldest_ready_ms) filter (where s.ready > 0 and ($3::text is null or s.kind = $3)) as "oldestReadyMs"
  from (${sampledSince(step)}) s
  cross join (
    select max(h.at) as at from (select w.at from stint.series w where w.step = 3600 order by w.at desc limit 1) h
  ) newest
  where s.ready is not null
    and ($2::text is null or s.queue = $2)
  group by 1, s.at, s.step
  order by 2`,
);

/** The most samples of all queues that a process holds in memory. */
const mostSamples = 50_000;

const fewEnough = (step: Step): string =>
  `$3 <= ${step} and not exists (select from (${sampledSince(step)}) s where s.ready is not null offset $2 limit 1)`;

// The narrowest step with few enough samples, starting with the requested one. Hours have one sample for each queue.
const selectSamplesStep = statement(
  "samples-step",
  `
  select case
    when ${fewEnough(10)} then 10
    when ${fewEnough(60)} then 60
    when ${fewEnough(600)} then 600
    else 3600
  end as step`,
);

/**
 * The samples within `backMs` and up to an hour before, oldest first. Only changed queues are sampled: a queue keeps its depth until its next
 * sample. The steps are wider than requested if all queues together have too many samples.
 */
export async function samples(
  db: Run,
  { stepSeconds, backMs, queue, kind }: SeriesInput,
  most = mostSamples,
): Promise<Sample[]> {
  let step = stepSeconds;
  if (queue === null && stepSeconds < 3_600) {
    const wider = await readMaybe(db, selectSamplesStep, [backMs, most, stepSeconds], (row) =>
      number(row, "step"),
    );
    step = steps.find((one) => one === wider) ?? stepSeconds;
  }
  return await readMany(db, of(selectSamples, step), [backMs, queue, kind], toSample);
}

function of(statements: ReadonlyMap<Step, Statement>, step: Step): Statement {
  const found = statements.get(step);
  if (found === undefined) throw new Error(`there is no step of ${String(step)} s`);
  return found;
}

/** The counts, without histograms. */
export type SeriesCounts = { readonly [counter in SeriesCounter]: number };

/** The recent counts of a queue. Null: nothing happened. */
export type QueueLately = {
  readonly queue: string;
  /** The minutes of the last half hour with counts: start (ms), arrived, ended, and the last sample of ready or null. */
  readonly minutes:
    | readonly (readonly [at: number, arrived: number, ended: number, ready: number | null])[]
    | null;
  /** The last ten minutes. */
  readonly ten: SeriesSums | null;
  /** The last six steps of ten seconds and the current one. */
  readonly one: SeriesCounts | null;
};

// One row for each queue: 500 queues are half a megabyte, where their steps were seven. A sample includes all kinds of a queue, so the last
// sample of a minute is in its last sampled ten seconds.
const selectLately = statement(
  "lately",
  `
  with points as materialized (
    select s.*, stint.step_of(s.at, 60) as minute
    from (${pointsSince(60, `stint.step_of(statement_timestamp(), 60) - interval '29 minutes'`)}) s
  ), moments as (
    select queue, minute, at, sum(arrived) as arrived, sum(succeeded + dead + cancelled) as ended, sum(ready) as ready
    from points
    group by queue, minute, at
  ), minutes as (
    select
      queue, minute, sum(arrived) as arrived, sum(ended) as ended,
      (array_agg(ready order by at desc) filter (where ready is not null))[1] as ready
    from moments
    group by queue, minute
  ), charts as (
    select
      queue,
      json_agg(json_build_array(extract(epoch from minute) * 1000, arrived, ended, ready) order by minute) as minutes
    from minutes
    group by queue
  ), ten as (
    select s.queue, ${sums}
    from points s
    where s.minute >= statement_timestamp() - interval '10 minutes'
    group by s.queue
  ), one as (
    select s.queue, ${seriesCounters.map((counter) => `sum(s.${columnOf(counter)})::float8 as "${counter}"`).join(", ")}
    from (${pointsSince(10, `stint.step_of(statement_timestamp(), 10) - interval '60 seconds'`)}) s
    group by s.queue
  )
  select queue, charts.minutes, to_json(ten) as ten, to_json(one) as one
  from charts
  full join ten using (queue)
  full join one using (queue)`,
);

/** The last minute, the last ten minutes and each of the last thirty minutes of each queue, including the current step. */
export async function lately(db: Run): Promise<QueueLately[]> {
  return await readMany(db, selectLately, [], toLately);
}

const toLately = columns<QueueLately>({
  queue: text,
  minutes: orNull(json<NonNullable<QueueLately["minutes"]>>),
  ten: orNull(json<SeriesSums>),
  one: orNull(json<SeriesCounts>),
});

export type Recent = SeriesSums & { readonly queue: string; readonly kind: string; readonly seconds: number };

const toRecent = columns<Recent>({ ...sumColumns, queue: text, kind: text, seconds: number });

const selectRecent = byStep(
  "recent",
  (step) => `
  select s.queue, s.kind, ${sums}, extract(epoch from clock_timestamp() - w.since)::float8 as seconds
  from (select stint.step_of(statement_timestamp(), ${step}) - $1::bigint * interval '1 millisecond' as since) w
  cross join lateral (${pointsSince(step, "w.since")}) s
  group by s.queue, s.kind, w.since`,
);

/** The sums of each queue and kind since `backMs` before the current step, and the seconds that covers. */
export async function recent(db: Run, stepSeconds: Step, backMs: number): Promise<Recent[]> {
  return await readMany(db, of(selectRecent, stepSeconds), [backMs], toRecent);
}

export type TenantUsage = { readonly tenant: string; readonly ended: number; readonly runMs: number };

const toTenantUsage = columns<TenantUsage>({ tenant: text, ended: number, runMs: number });

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

/** The tenants with most ended attempts in the last hour. */
export async function topTenants(db: Run): Promise<TenantUsage[]> {
  return await readMany(db, selectTenants, [], toTenantUsage);
}
