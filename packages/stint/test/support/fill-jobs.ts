import type { Fresh } from "./fresh.ts";

/** UUIDv7s of the milliseconds before now, the last one the newest. */
const idOf = (all: string, low: number): string => `(
  overlay(lpad(to_hex(floor(extract(epoch from now()) * 1000)::bigint - ${all} + n), 12, '0') placing '-' from 9 for 0)
  || '-7000-8000-' || lpad(to_hex(${low}), 12, '0'))::uuid`;

/**
 * Inserts live jobs of 40 kinds in 7 queues, one per millisecond: most of them ready, one in a thousand running, and
 * finished ones of which every twentieth is dead. The tallies are correct, and the tables are analysed.
 */
export async function fillJobs(
  fresh: Fresh,
  { live, finished = 0 }: { live: number; finished?: number },
): Promise<void> {
  await withoutIndexes(fresh, "job", async () => {
    await fresh.sql(
      `insert into stint.job (id, kind, queue, state, priority, run_at, created_at, key, tenant, tags, park_reason, reason, attempts, epoch,
         lease_id, lease_until, worker, claimed_at, payload)
       select ${idOf("$1", 1)}, 'kind-' || n % 40, 'queue-' || n % 7, s.state::stint.job_state, n % 3,
         now() + case when s.state in ('scheduled', 'retrying') then n else n - $1 end * interval '1 ms',
         now() + (n - $1) * interval '1 ms', 'live:' || n, 'tenant-' || n % 500, case when n % 10 = 0 then array['nightly'] end,
         case when s.state = 'parked' then 'review' end, case when s.state = 'retrying' then 'it failed' end,
         case when s.state in ('running', 'retrying') then 1 else 0 end,
         case when s.state in ('running', 'retrying') then 1 else 0 end,
         case when s.state = 'running' then gen_random_uuid() end,
         case when s.state = 'running' then now() + interval '1 hour' end,
         case when s.state = 'running' then 'worker-of-the-fill' end,
         case when s.state = 'running' then now() end,
         jsonb_build_object('n', n)
       from generate_series(1, $1::bigint) n,
         lateral (select case
           when n % 1000 = 1 then 'running' when n % 100 = 2 then 'parked' when n % 20 = 3 then 'retrying' when n % 5 = 4 then 'scheduled'
           else 'ready' end as state) s`,
      [live],
    );
  });
  await fresh.sql(
    `insert into stint.history (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes,
       interruptions, epoch, run, key, tenant, reason, payload, log)
     select ${idOf("$1", 2)}, 'kind-' || n % 40, 'queue-' || n % 7, s.state::stint.job_state, n % 3, now(),
       now() + (n - $1) * interval '1 ms', now() + (n - $1) * interval '1 ms', 1, 0, 0, 1, 1, 'finished:' || n, 'tenant-' || n % 500,
       case when s.state = 'dead' then 'attempts exhausted' end, jsonb_build_object('n', n),
       case when s.state = 'dead' then jsonb_build_array(jsonb_build_object('epoch', 1, 'worker', 'worker-of-the-fill',
         'startedAt', now(), 'endedAt', now(), 'outcome', 'failed',
         'error', jsonb_build_object('class', 'Error', 'message', 'no answer from partner ' || n % 13))) end
     from generate_series(1, $1::bigint) n,
       lateral (select case when n % 20 = 0 then 'dead' else 'succeeded' end as state) s`,
    [finished],
  );
  await fresh.sql(`select stint.recount()`);
  for (const table of ["job", "history", "tally"]) await fresh.sql(`analyze stint.${table}`);
}

const id = "('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid";

/**
 * Inserts ready jobs, a third as many scheduled ones of which ten are due, and 500 running ones. All are in one queue and in the order
 * of their enqueue, as in most installations. Statistics then indicate that queue and time have the same order in the table as in the
 * index, which can mislead the planner.
 */
export async function fillOneQueue(fresh: Fresh, ready: number): Promise<void> {
  const scheduled = Math.round(ready * 0.3);
  await withoutIndexes(fresh, "job", async () => {
    await fresh.sql(
      `insert into stint.job (id, kind, queue, state, priority, run_at, created_at, payload)
       select ${id}, 'work', 'a', 'ready', 0, now() - (2 * $1::integer - n) * interval '1 ms', now(), '{}'
       from generate_series(1, $1::integer) n`,
      [ready],
    );
    await fresh.sql(
      `insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
       select ${id}, 'work', 'a', 'scheduled', now() + (n - $1::integer - 10) * interval '1 day' / 1000, now(), '{}'
       from generate_series($1::integer + 1, $1::integer + $2::integer) n`,
      [ready, scheduled],
    );
    await fresh.sql(
      `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, lease_id, lease_until, epoch, attempts)
       select ${id}, 'work', 'a', 'running', now(), now(), '{}', gen_random_uuid(), now() + n * interval '1 s', 1, 1
       from generate_series($1::integer + 1, $1::integer + 500) n`,
      [ready + scheduled],
    );
  });
}

/** Drops the indexes for the insert: creating them afterwards takes a fraction of the time. */
async function withoutIndexes(fresh: Fresh, table: string, work: () => Promise<void>): Promise<void> {
  const indexes = await fresh.sql<{ name: string; definition: string }>(
    `select indexname as name, indexdef as definition
     from pg_indexes
     where schemaname = $1 and tablename = $2 and indexname <> $2 || '_pkey'`,
    [fresh.schema, table],
  );
  for (const { name } of indexes) await fresh.sql(`drop index "${fresh.schema}"."${name}"`);
  await fresh.sql(`alter table stint.${table} drop constraint ${table}_pkey`);
  await work();
  await fresh.sql(`alter table stint.${table} add constraint ${table}_pkey primary key (id)`);
  for (const { definition } of indexes) await fresh.sql(definition);
}
