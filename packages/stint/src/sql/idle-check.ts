import type { Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import { waitsForTime } from "./promote.ts";
import { rangeValues, walkReady, type QueueRange } from "./ready-queues.ts";

export type IdleCheck = {
  /** Whether a job is ready in the queues it asked about. */
  ready: boolean;
  /** Queues of its large pools with a ready job of its kinds, and whether there are more to look at; undefined if it has no such pool. */
  named?: { readonly queues: readonly string[]; readonly more: boolean };
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
  /** The same in milliseconds. */
  serverMs: number;
};

const glanceText = ({ suspect, more = "" }: { suspect: string; more?: string }): string => `
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
    ${suspect},
    (
      select extract(epoch from d.run_at - clock_timestamp()) * 1000
      from stint.job d
      where ${waitsForTime("d")}
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
    ${more}clock_timestamp()::text as at, extract(epoch from clock_timestamp())::float8 * 1000 as server_ms`;

const suspected = `
      from stint.job p
      where p.state = 'parked'
        and p.park_reason = stint.by_index('quarantine'::text)
        and p.kind = any ($2::text[])`;

const lookAround = statement(
  "idle-check",
  glanceText({
    suspect: `exists (
      select ${suspected}
        and p.queue = any ($1::text[])
      order by p.park_reason, p.run_at
      limit 1
    ) as suspect`,
  }),
);

/** How many queues of large pools one look around names. */
const mostNamed = 100;

/** For a worker with large pools: it names queues, so that their number costs nothing. */
const lookAroundPools = statement(
  "idle-check-pools",
  glanceText({
    suspect: `array(
      select p.queue ${suspected}
        and cardinality($1::text[]) + cardinality($4::text[]) > 0
      order by p.park_reason, p.run_at
      limit ${mostNamed}
    ) as suspected`,
    more: `(
      select jsonb_build_object(
        'queues', coalesce(jsonb_agg(named.queue) filter (where named.served), '[]'), 'looked_at', count(*))
      from (${walkReady({ first: "$4", until: "$5", kinds: "$2", limit: mostNamed })}
      ) named
    ) as named,
    `,
  }),
);

export type IdleCheckInput = {
  /** Queues of the pools that are asked whole. */
  queues: readonly string[];
  kinds: readonly string[];
  since: string;
  /** Where the queues of large pools are, and which of those found there are this worker's. */
  search?: { readonly ranges: readonly QueueRange[]; readonly serves: (queue: string) => boolean };
};

/**
 * Everything an idle worker wants to know, in one statement that writes nothing. `since` leaves out what was due, or ran
 * out, some seconds before that: whoever looked then has seen it, and behind it lie the entries of jobs long gone.
 */
export async function idleCheck(
  db: Run,
  { queues, kinds, since, search }: IdleCheckInput,
): Promise<IdleCheck> {
  const values = [queues, kinds, since];
  const [row = {}] = await (search === undefined
    ? db.run(lookAround, values)
    : db.run(lookAroundPools, [...values, ...rangeValues(search.ranges)]));
  const serves = (queue: string): boolean => search?.serves(queue) === true;
  const named = row["named"] as { queues: string[]; looked_at: number } | undefined;
  const suspected = row["suspected"] as string[] | undefined;
  return {
    ready: row["ready"] === true,
    ...(named && { named: { queues: named.queues.filter(serves), more: named.looked_at === mostNamed } }),
    suspect: row["suspect"] === true || suspected?.some(serves) === true,
    dueInMs: (row["due_in_ms"] as number | null | undefined) ?? null,
    expiresInMs: (row["expires_in_ms"] as number | null | undefined) ?? null,
    unfolded: row["unfolded"] === true,
    at: row["at"] as string,
    serverMs: row["server_ms"] as number,
  };
}
