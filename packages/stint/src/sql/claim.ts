import type { Row, Run, RunOptions } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import { flag, number, readOne, text } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { ClaimedJob } from "../model/job.ts";
import { toLike } from "../model/name-pattern.ts";
import { claimedColumns } from "./job-columns.ts";
import { byClaimOrder, toClaimedJob } from "./rows.ts";
import { tallied } from "./transitions.ts";

/** How many jobs to take from which queue, and from all queues of its pool together, where several are asked. */
export type Take = {
  readonly queue: string;
  readonly limit: number;
  readonly pool?: PoolTake;
  /** Only jobs of this priority or a smaller one, for `claimUrgent`. */
  readonly mostPriority?: number;
};

/** One object for all takes of a pool, which stand side by side. */
export type PoolTake = { readonly limit: number };

/** Where the ready jobs of one queue and priority begin, as far as a worker knows: after the last one it took. */
export type Floor = {
  readonly queue: string;
  readonly priority: number;
  readonly runAt: string;
  readonly id: string;
};

export type ClaimInput = {
  worker: string;
  /** Fresh for every claim: with the epoch it makes a fence no other claim can have, even after a failover. */
  leaseId: string;
  takes: readonly Take[];
  kinds: readonly string[];
  /** Lease by kind, where a kind has its own. */
  kindLeaseMs: Readonly<Record<string, number>>;
  leaseMs: number;
  /** The deadline of the claim, by the database's clock in milliseconds. Left out: none. */
  until?: number;
};

export const leased = `
    state = 'running',
    attempts = j.attempts + 1,
    epoch = j.epoch + 1,
    lease_id = $3,
    lease_until = clock_timestamp() + coalesce(j.lease_ms, ($1::jsonb ->> j.kind)::bigint, $2::bigint) * interval '1 millisecond',
    worker = $4,
    claimed_at = clock_timestamp(),
    dedupe_key = case when j.dedupe_until = 'started' then null else j.dedupe_key end`;

/**
 * A claim that arrives after its deadline fails and takes nothing: its worker no longer waits for it and would not run the jobs. The error reports
 * the lateness and the database's time. An empty result would look like an empty queue.
 */
export const inTime = `(clock_timestamp() < $6::timestamptz or stint.too_late())`;

/** The lease a claim gives. */
export type LeaseInput = Pick<ClaimInput, "leaseId" | "kindLeaseMs" | "leaseMs">;

/** The first parameters of every claim, in the order of the texts above. */
export const claimValues = (input: Omit<ClaimInput, "takes">): unknown[] => [
  JSON.stringify(input.kindLeaseMs),
  input.leaseMs,
  input.leaseId,
  input.worker,
  input.kinds,
  input.until === undefined ? "infinity" : toTimestamp(input.until),
];

/** Ready jobs of one queue, in the order of the ready index (`by_index` sees to it), so nothing is sorted. */
export const pickReady = (queue: string, limit: string, also = ""): string => `
        select r.ctid
        from stint.job r
        where r.state = 'ready'
          and r.queue = stint.by_index(${queue})
          and r.kind = any ($5::text[])${also}
        order by r.priority, r.run_at, r.id
        limit ${limit}
        for update skip locked`;

/**
 * The same, but what lies before the floors is not looked at. There, entries of jobs that were taken long ago pile up while some
 * other session's transaction stays open, and a scan from the start would read all of them every time.
 * The outer limit stops the walk through the floors, so no row is locked that is not taken.
 */
const pickOnward = (queue: string, limit: string, first: number): string => `
        select after.ctid
        from unnest(
          (select $${first}::text[]), (select $${first + 1}::smallint[]), (select $${first + 2}::timestamptz[]), (select $${first + 3}::uuid[]))
          as floor (queue, priority, run_at, id)
        cross join lateral (
          select r.ctid
          from stint.job r
          where r.state = 'ready'
            and r.queue = stint.by_index(floor.queue)
            and r.priority = floor.priority
            and (r.run_at, r.id) > (floor.run_at, floor.id)
            and r.kind = any ($5::text[])
          order by r.run_at, r.id
          limit ${limit}
          for update skip locked
        ) after
        where floor.queue = ${queue}
        limit ${limit}`;

/** Each queue by itself: one queue of each pool. */
const fromQueues = (pick: string): string => `
      select picked.ctid
      from unnest((select $7::text[]), (select $8::integer[])) as take (queue, take)
      cross join lateral (${pick}
      ) picked`;

/**
 * Several queues of a pool, in the order given, until the pool has enough. The limit of the pool stops the walk through its queues:
 * those behind are not looked at, and no row is locked that is not taken.
 */
export const fromPools = (pick: string, more = { values: "", columns: "" }): string => `
      select shared.ctid
      from unnest((select $9::integer[]), (select $10::integer[])) as pool (pool, take)
      cross join lateral (
        select picked.ctid
        from unnest((select $7::text[]), (select $8::integer[]), (select $11::integer[])${more.values}) as take (queue, take, pool${more.columns})
        cross join lateral (${pick}
        ) picked
        where take.pool = pool.pool
        limit pool.take
      ) shared`;

/**
 * The picked rows are updated by their place in the heap, which spares a look-up per row. The outer predicate repeats what was
 * picked for, because a row may have moved since; it asks for a range of one state, because with `=` the planner may prefer walking
 * the whole ready index to fetching the rows by their place. A comparison as text has the same effect and costs more.
 */
export const claimText = (picked: string, more = ""): string => `
  update stint.job j
  set ${leased}
  where j.ctid = any (array(${picked}
    ))
    and j.state >= 'ready' and j.state <= 'ready'
    and ${inTime}
  returning ${claimedColumns}${more}`;

const ready = pickReady("take.queue", "take.take");
const picks = {
  queues: fromQueues(ready),
  pools: fromPools(ready),
  queuesOnward: fromQueues(pickOnward("take.queue", "take.take", 9)),
  poolsOnward: fromPools(pickOnward("take.queue", "take.take", 12)),
};
const asText = true;
const claims = {
  queues: statement("claim", claimText(picks.queues), { asText }),
  pools: statement("claim-pools", claimText(picks.pools), { asText }),
  queuesOnward: statement("claim-onward", claimText(picks.queuesOnward), { asText }),
  poolsOnward: statement("claim-pools-onward", claimText(picks.poolsOnward), { asText }),
};
// In the transaction of the claim, so that a session which closes a share after it counts the claimed jobs. Evaluated once for all rows.
const openShares = `, (select stint.open_shares($4)) as shares`;
const claimsInShares = {
  queues: statement("claim-shares", claimText(picks.queues, openShares), { asText }),
  pools: statement("claim-pools-shares", claimText(picks.pools, openShares), { asText }),
  queuesOnward: statement("claim-onward-shares", claimText(picks.queuesOnward, openShares), { asText }),
  poolsOnward: statement("claim-pools-onward-shares", claimText(picks.poolsOnward, openShares), { asText }),
};

/**
 * Lease up to `limit` ready jobs per queue, and per pool, to one worker and open an attempt on each, in one short transaction of
 * its own. Two workers asking at once never get the same job: `skip locked` steps over rows the other is taking.
 * With floors, in the order of their priorities, only what lies after them.
 */
export async function claim(
  db: Run,
  input: ClaimInput,
  floors?: readonly Floor[],
  options?: RunOptions,
): Promise<ClaimedJob[]> {
  return toClaimed(await db.run(claims[picked(input, floors)], valuesOf(input, floors), options), input);
}

/** The same, and the limits of which the worker has an open share. These shares cover the claimed jobs. */
export async function claimInShares(
  db: Run,
  input: ClaimInput,
  floors?: readonly Floor[],
  options?: RunOptions,
): Promise<{ jobs: ClaimedJob[]; shares: readonly string[] }> {
  const rows = await db.run(claimsInShares[picked(input, floors)], valuesOf(input, floors), options);
  const [first] = rows;
  const shares = first === undefined ? [] : (JSON.parse(text(first, "shares")) as string[]);
  return { jobs: toClaimed(rows, input), shares };
}

function picked({ takes }: ClaimInput, floors: readonly Floor[] | undefined): keyof typeof picks {
  const shared = takes.some((take) => take.pool !== undefined);
  if (floors === undefined) return shared ? "pools" : "queues";
  return shared ? "poolsOnward" : "queuesOnward";
}

function valuesOf(input: ClaimInput, floors: readonly Floor[] | undefined): unknown[] {
  const { takes } = input;
  const values = [
    ...claimValues(input),
    takes.map((take) => take.queue),
    takes.map((take) => take.limit),
    ...poolValues(takes),
  ];
  if (floors === undefined) return values;
  return [
    ...values,
    floors.map((floor) => floor.queue),
    floors.map((floor) => floor.priority),
    floors.map((floor) => floor.runAt),
    floors.map((floor) => floor.id),
  ];
}

/** The number and the limit of each pool, and the pool of each take; nothing where no queues share one, unless `always`. */
export function poolValues(takes: readonly Take[], always = false): number[][] {
  if (!always && takes.every((take) => take.pool === undefined)) return [];
  const limits: number[] = [];
  const pools: number[] = [];
  let last: PoolTake | undefined;
  for (const { limit, pool } of takes) {
    if (pool === undefined || pool !== last) limits.push(pool?.limit ?? limit);
    last = pool;
    pools.push(limits.length);
  }
  return [limits.map((_, index) => index + 1), limits, pools];
}

export function toClaimed(rows: readonly Row[], input: LeaseInput): ClaimedJob[] {
  let last: ClaimedJob | undefined;
  return rows.map((row) => (last = toClaimedJob(row, input, last))).sort(byClaimOrder);
}

/** The one of these kinds and queues that has been in quarantine for the longest, if that is long enough. */
const longestSuspected = (
  kinds: string,
  queues: string,
  waitedMs: string,
  patterns: string,
  excluded: string,
): string => `
      select r.ctid
      from stint.job r
      where r.state = 'parked'
        and r.park_reason = 'quarantine'
        and r.run_at <= stint.by_index(statement_timestamp() - ${waitedMs}::bigint * interval '1 millisecond')
        and (r.queue = any (${queues}::text[]) or r.queue like any (${patterns}::text[]))
        and r.queue not like all (${excluded}::text[])
        and r.kind = any (${kinds}::text[])
      order by r.park_reason, r.run_at
      limit 1
      for update skip locked`;

const claimParked = statement(
  "claim-quarantined",
  `
  with taken as (
    update stint.job j
    set ${leased}
    where j.ctid = any (array(
        ${longestSuspected("$5", "$7", "$8", "$9", "$10")}
      ))
      and j.state::text = 'parked'
      and ${inTime}
    returning ${claimedColumns}, priority
  ), tallied as (
    ${tallied("taken", { was: ["parked"], becomes: ["running"] })}
  )
  select * from taken`,
  { asText: true },
);

export type QuarantineInput = Omit<ClaimInput, "takes"> & {
  queues: readonly string[];
  /** Patterns for more queues, such as `tenant-*`. */
  patterns?: readonly string[];
  /** Queues to leave out, in the syntax of LIKE. */
  excluded?: readonly string[];
  waitedMs: number;
};

/**
 * Take one job that is suspected of killing workers, to be run alone: if the worker dies again, no
 * neighbour can be blamed for it or harmed by it. Its park reason stays while it runs, so that a rescue can read it.
 */
export async function claimQuarantined(
  db: Run,
  input: QuarantineInput,
  options?: RunOptions,
): Promise<ClaimedJob[]> {
  const { queues, waitedMs, patterns = [], excluded = [] } = input;
  const values = [...claimValues(input), queues, waitedMs, patterns.map(toLike), excluded];
  return toClaimed(await db.run(claimParked, values, options), input);
}

const reserveParked = statement(
  "reserve-quarantined",
  `
  update stint.job j
  set run_at = clock_timestamp()
  where j.ctid = any (array(
      ${longestSuspected("$1", "$2", "$3", "$4", "$5")}
    ))
    and j.state::text = 'parked'
  returning j.id`,
);

/**
 * Whether such a job has waited for so long. Its wait then starts anew, so that of many busy workers only one at a time makes
 * room for it.
 */
export async function reserveQuarantined(
  db: Run,
  {
    kinds,
    queues,
    patterns = [],
    excluded = [],
    waitedMs,
  }: Pick<QuarantineInput, "kinds" | "queues" | "patterns" | "excluded" | "waitedMs">,
): Promise<boolean> {
  return (await db.run(reserveParked, [kinds, queues, waitedMs, patterns.map(toLike), excluded])).length > 0;
}

const selectClaimed = statement(
  "claimed",
  `
  select ${claimedColumns}
  from stint.job
  where state = 'running'
    and lease_id = $1`,
  { asText: true },
);

/**
 * The jobs of a claim whose response was lost. Without this they would wait until their lease expires, and count a crash that did not
 * happen.
 */
export async function claimedBy(db: Run, input: LeaseInput, options?: RunOptions): Promise<ClaimedJob[]> {
  return toClaimed(await db.run(selectClaimed, [input.leaseId], options), input);
}

const readClaimWindow = statement(
  "claim-window",
  `
  select
    extract(epoch from clock_timestamp() - $1::timestamptz)::float8 * 1000 as past_ms,
    pg_snapshot_xmin(pg_current_snapshot())::text as oldest,
    pg_current_xact_id()::text as own,
    coalesce((
      select bool_or(pg_terminate_backend(a.pid))
      from pg_stat_activity a
      where a.usename = session_user
        and a.datname = current_database()
        and a.state = 'active'
        and a.query ~ '^/[*] stint:claim(-(quarantined|onward|pools|pools-onward|fair|aged|urgent))?(-shares)? '
        and (strpos(a.query, 'stint.job ') > 0 or a.query like '%commit')
        and case
          when $2::integer is not null then a.pid = $2::integer
          else clock_timestamp() > $1::timestamptz and a.xact_start between $1::timestamptz - interval '15 seconds' and $1::timestamptz
        end
    ), false) as at_work`,
);

/**
 * How long ago the deadline of a claim was, the oldest transaction that was under way, and the id of this look's own transaction. Every
 * transaction that had an id before this look has a lower one; the end of a snapshot is no such bound. `atWork`: the backend of the claim still works on it. That backend is terminated. Behind a pooler the backend is unknown: then these are all
 * claims that began when this one may have begun and whose time is over. None of them has a worker that still waits for it.
 */
export type ClaimWindow = { pastMs: number; oldest: bigint; own: bigint; atWork: boolean };

function toClaimWindow(row: Row): ClaimWindow {
  return {
    atWork: flag(row, "at_work"),
    pastMs: number(row, "past_ms"),
    oldest: BigInt(text(row, "oldest")),
    own: BigInt(text(row, "own")),
  };
}

export async function claimWindow(
  db: Run,
  { until, backend }: { until: number; backend?: number | undefined },
  options?: RunOptions,
): Promise<ClaimWindow> {
  return await readOne(db, readClaimWindow, [toTimestamp(until), backend ?? null], toClaimWindow, options);
}
