import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

export type Glance = {
  /** Whether a job is ready that this worker could take. */
  ready: boolean;
  /** Whether a job of its queues and kinds waits to be run alone. */
  suspect: boolean;
  /** Time until a job is due, by the database's clock, negative if it is late; null when none waits. */
  dueInMs: number | null;
  /** Time until the first lease runs out; null when nothing runs anywhere. */
  expiresInMs: number | null;
  /** Whether something was said to the tallies that has not been folded, or everything is yet to be sampled in this hour. */
  unfolded: boolean;
  /** When this was, by the database's clock. */
  at: string;
};

const lookAround = statement(
  "glance",
  `
  select
    exists (
      select
      from unnest($1::text[]) as own (queue)
      cross join lateral (
        select
        from stint.job r
        where r.state = 'ready'
          and r.queue = stint.by_index(own.queue)
          and r.kind = any ($2::text[])
        order by r.priority, r.run_at, r.id
        limit 1
      ) head
    ) as ready,
    exists (
      select
      from stint.job p
      where p.state = 'parked'
        and p.reason = stint.by_index('quarantine'::text)
        and p.queue = any ($1::text[])
        and p.kind = any ($2::text[])
      order by p.reason, p.run_at
      limit 1
    ) as suspect,
    (
      select extract(epoch from d.run_at - clock_timestamp()) * 1000
      from stint.job d
      where d.state in ('scheduled', 'retrying')
        and d.run_at > $3::timestamptz - interval '5 seconds'
      order by d.run_at
      limit 1
    )::float8 as due_in_ms,
    (
      select extract(epoch from l.lease_until - clock_timestamp()) * 1000
      from stint.job l
      where l.state = 'running'
        and l.lease_until > $3::timestamptz - interval '5 seconds'
      order by l.lease_until
      limit 1
    )::float8 as expires_in_ms,
    (
      select f.framed_at < stint.step_of(clock_timestamp(), 3600) or exists (
        select
        from stint.tally_delta d
        where d.xid >= stint.by_index(pg_snapshot_xmax(f.snapshot))
        order by d.xid
        limit 1
      )
      from (select snapshot, framed_at from stint.tally_fold order by fold desc limit 1) f
    ) as unfolded,
    clock_timestamp()::text as at`,
);

/**
 * Everything an idle worker wants to know, in one statement that writes nothing. `since` leaves out what was due, or ran
 * out, some seconds before that: whoever looked then has seen it, and behind it lie the entries of jobs long gone.
 */
export async function glance(
  db: Run,
  input: { queues: readonly string[]; kinds: readonly string[]; since: string },
): Promise<Glance> {
  const [row] = await db.run(lookAround, [input.queues, input.kinds, input.since]);
  return {
    ready: row?.["ready"] === true,
    suspect: row?.["suspect"] === true,
    dueInMs: (row?.["due_in_ms"] as number | null | undefined) ?? null,
    expiresInMs: (row?.["expires_in_ms"] as number | null | undefined) ?? null,
    unfolded: row?.["unfolded"] === true,
    at: row?.["at"] as string,
  };
}
