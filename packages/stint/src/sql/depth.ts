import type { Run } from "../db/db.ts";
import { columns as readColumns, flag, json, number, readMany, readOne, text, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { TargetSetting } from "../model/queue-settings.ts";
import { pauseInForce } from "./pauses.ts";
import { foldBacklog, isBehind } from "./tallies.ts";

/** How many jobs of one queue, kind and priority are in which state. */
export type DepthRow = {
  readonly queue: string;
  readonly kind: string;
  readonly priority: number;
  readonly scheduled: number;
  readonly ready: number;
  readonly running: number;
  readonly retrying: number;
  readonly parked: number;
  readonly dead: number;
};

const columns = ["scheduled", "ready", "running", "retrying", "parked", "dead"] as const;

const selectDepth = statement(
  "depth",
  `
  select queue, kind, priority, ${columns.map((column) => `${column}::float8 as ${column}`).join(", ")}, ${isBehind} as behind
  from stint.depth
  where live <> 0 or dead <> 0`,
);

const toDepth = readColumns<DepthRow>({
  queue: text,
  kind: text,
  priority: number,
  scheduled: number,
  ready: number,
  running: number,
  retrying: number,
  parked: number,
  dead: number,
});

/** Exact without counting jobs: the tallies, the unfolded deltas, and the running jobs. */
export async function depths(db: Run): Promise<DepthRow[]> {
  const rows = await readMany(db, selectDepth, [], (row) => ({
    depth: toDepth(row),
    behind: flag(row, "behind"),
  }));
  if (rows[0]?.behind === true) await foldBacklog(db);
  return rows.map(({ depth }) => depth);
}

/** The current figures of the Health screen. One statement, so that they are of one snapshot. */
export type Standing = {
  readonly at: Date;
  readonly depth: readonly DepthRow[];
  readonly ages: readonly {
    readonly queue: string;
    readonly oldestReadyMs: number | null;
    readonly oldestDeadMs: number | null;
  }[];
};

/** With the target ages that are set and the queues that are paused, by name and pattern. */
export type StandingWithTargets = Standing & {
  readonly targets: readonly TargetSetting[];
  readonly pauses: readonly QueuePause[];
};

/** A pause of a queue, or of the queues that a pattern matches. Times are milliseconds since 1970. */
export type QueuePause = {
  readonly queue: string;
  readonly until: number | null;
  readonly pausedAt: number;
  readonly pausedBy: string;
  readonly reason: string;
};

export const standingNow = `
  with depth as materialized (
    select queue, kind, priority, live, ${columns.map((column) => `${column}::float8 as ${column}`).join(", ")}
    from stint.depth
    where live <> 0 or dead <> 0
  ), ages as (
    select
      q.queue,
      (
        select extract(epoch from clock_timestamp() - min(head.run_at)) * 1000
        from (select p.priority from depth p where p.queue = q.queue and p.ready > 0 group by p.priority) p
        cross join lateral (
          select r.run_at
          from stint.job r
          where r.state = 'ready' and r.queue = stint.by_index(q.queue) and r.priority = p.priority
          order by r.run_at
          limit 1
        ) head
      )::float8 as "oldestReadyMs",
      (
        select extract(epoch from clock_timestamp() - h.finished_at) * 1000
        from stint.history h
        where h.state = 'dead' and h.queue = stint.by_index(q.queue) and q.dead > 0
        order by h.finished_at
        limit 1
      )::float8 as "oldestDeadMs"
    from (select queue, sum(dead) as dead from depth group by queue) q
  )
  select
    clock_timestamp() as at,
    (select coalesce(jsonb_agg(to_jsonb(d) - 'live'), '[]') from depth d) as depth,
    (select coalesce(jsonb_agg(to_jsonb(a)), '[]') from ages a) as ages,
    ${isBehind} as behind`;

export const toStanding = readColumns<Standing>({
  at: time,
  depth: json<Standing["depth"]>,
  ages: json<Standing["ages"]>,
});

const selectStanding = statement(
  "standing",
  `${standingNow},
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'queue', q.name, 'targetAgeMs', q.target_age_ms, 'declaredTargetAgeMs', q.declared_target_age_ms)), '[]')
      from stint.queue q
      where q.target_age_ms is not null
    ) as targets,
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'queue', p.name, 'until', floor(extract(epoch from p.until) * 1000), 'pausedAt', floor(extract(epoch from p.paused_at) * 1000),
        'pausedBy', p.paused_by, 'reason', p.reason)), '[]')
      from stint.pause p
      where p.scope = 'queue' and ${pauseInForce}
    ) as pauses`,
);

export async function standing(db: Run): Promise<StandingWithTargets> {
  const { behind, ...now } = await readOne(db, selectStanding, [], (row) => ({
    ...toStanding(row),
    targets: json<StandingWithTargets["targets"]>(row, "targets"),
    pauses: json<StandingWithTargets["pauses"]>(row, "pauses"),
    behind: flag(row, "behind"),
  }));
  if (behind) await foldBacklog(db);
  return now;
}
