import type { Fresh } from "./fresh.ts";

/**
 * Inserts queues, each busy for the last half hour: a ready and a dead job, a point of the series for each minute and for each ten
 * seconds of the last minutes.
 */
export async function fillQueues(fresh: Fresh, queues: number): Promise<void> {
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, priority, run_at, created_at, payload)
     select gen_random_uuid(), 'work', 'tenant-' || n, 'ready', 0, now(), now(), '{}' from generate_series(1, $1::integer) n`,
    [queues],
  );
  await fresh.sql(
    `insert into stint.history (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes,
       interruptions, epoch, run, reason, payload)
     select gen_random_uuid(), 'work', 'tenant-' || n, 'dead', 0, now(), now(), now(), 1, 0, 0, 1, 1, 'no', '{}'
     from generate_series(1, $1::integer) n`,
    [queues],
  );
  for (const [step, points] of [
    [60, 30],
    [10, 12],
  ])
    await fresh.sql(
      `insert into stint.series (step, at, queue, kind, arrived, claimed, succeeded, ready, running, oldest_ready_ms, wait, run)
       select $2::integer, stint.step_of(now(), $2::integer) - p * $2::integer * interval '1 second', 'tenant-' || n, 'work',
         100 + (n * p) % 37, 100, 100 + n % 7, n % 11, 0, 0, b.buckets, b.buckets
       from generate_series(1, $1::integer) n, generate_series(0, $3::integer - 1) p,
         (select array_agg(1) as buckets from generate_series(1, 20)) b`,
      [queues, step, points],
    );
  await fresh.sql(`select stint.recount()`);
  for (const table of ["job", "history", "series", "tally"]) await fresh.sql(`analyze stint.${table}`);
}
