import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { fenced, fencesIn, fenceValues } from "./fences.ts";
import { afterFollowUps, firstTrace, followed, tallied, unleased } from "./transitions.ts";

/** An attempt that ends because its handler sleeps or waits for a signal. */
export type Suspend = {
  fence: Fence;
  seq: number;
  name: string;
  /** The awaited signal; null for a sleep. */
  awaits: string | null;
  /** When it ends by itself: a time, or milliseconds from now. Null: at no time. */
  until: Date | number | null;
  /** The `traceparent` of this attempt, kept as that of the first one. */
  first?: string;
};

// The wait is remembered in the same statement: a job that was parked without it would sleep again whenever it runs. A wait that is remembered
// already keeps its time. No entry of the attempt log is used, so that a job can sleep thousands of times and keep its failures.
//
// `has_signal` is called once the row is locked, and takes a new snapshot: see the migration "signals".
const suspendJobs = statement(
  "suspend",
  `
  with mine as (
    select *
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::integer[]), (select $5::text[]),
        (select $6::text[]), (select $7::timestamptz[]), (select $8::bigint[]), (select $9::text[])
      ) as m (id, epoch, lease_id, seq, name, awaits, until_at, until_ms, first)
  ), held as materialized (
    select m.*
    from mine m
    join stint.job j on ${fenced} and not j.cancel_requested
    order by j.id
    for no key update of j
  ), remembered as (
    insert into stint.step as w (job_id, seq, name, type, is_pending, awaits, until, epoch)
    select
      h.id, h.seq, h.name, case when h.awaits is null then 'sleep' else 'signal' end, true, h.awaits,
      coalesce(h.until_at, clock_timestamp() + h.until_ms * interval '1 millisecond'), h.epoch
    from held h
    on conflict (job_id, name) do update set epoch = excluded.epoch
    returning w.job_id, w.until
  ), checked as materialized (
    select h.*, r.until, coalesce(h.awaits is not null and stint.has_signal(h.id, h.awaits), false) as signalled
    from held h
    join remembered r on r.job_id = h.id
  ), back as (
    update stint.job j
    set state = case when m.signalled then 'ready' else 'parked' end::stint.job_state,
        park_reason = case when m.signalled then null when m.awaits is null then 'sleep' else 'signal' end,
        park_until = case when not m.signalled then m.until end,
        reason = case when not m.signalled and m.awaits is not null then 'waits for signal ' || m.awaits end,
        run_at = case when m.signalled then clock_timestamp() else coalesce(m.until, clock_timestamp()) end,
        -- It has started in time. To cancel it in the middle of its work would leave that half done.
        expires_at = null,
        attempts = j.attempts - 1,
        interruptions = j.interruptions + 1,
        ${firstTrace}
        ${unleased}
    from checked m
    where ${fenced}
    returning j.id, j.epoch, m.lease_id, j.queue, j.kind, j.priority, j.state, j.has_follow_ups
  ), tallied as (
    ${tallied("back", { was: ["running"], becomes: ["parked", "ready"] })}
  ), ${followed("back")}
  select id, epoch, lease_id from back where ${afterFollowUps}`,
);

/**
 * Park jobs whose handler sleeps or waits for a signal, and remember the wait. No attempt is spent. A job whose signal is there already becomes
 * ready instead. Each only if its fence still holds and no cancel was requested. Returns the fences of those that did.
 */
export async function suspend(db: Run, jobs: readonly Suspend[]): Promise<Set<Fence>> {
  const fences = jobs.map((job) => job.fence);
  const rows = await db.run(suspendJobs, [
    ...fenceValues(fences),
    jobs.map(({ seq }) => seq),
    jobs.map(({ name }) => name),
    jobs.map(({ awaits }) => awaits),
    jobs.map(({ until }) => (until instanceof Date ? until.toISOString() : null)),
    jobs.map(({ until }) => (typeof until === "number" ? Math.ceil(until) : null)),
    jobs.map(({ first }) => first ?? null),
  ]);
  return fencesIn(rows, fences);
}
