import type { Fresh } from "../support/fresh.ts";

const id = "('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid";

/**
 * A million ready jobs, 300,000 scheduled ones of which ten are due, and 500 that run, all of one queue and in the order they came, as with most people.
 * Statistics then say that queue and time lie in the table as in the index, and that can mislead the planner.
 */
export async function fillWithAMillion(fresh: Fresh): Promise<void> {
  // Indexes made afterwards are made in a fraction of the time.
  const indexes = await fresh.sql<{ name: string; definition: string }>(
    `select indexname as name, indexdef as definition
     from pg_indexes
     where schemaname = $1 and tablename = 'job' and indexname <> 'job_pkey'`,
    [fresh.schema],
  );
  for (const { name } of indexes) await fresh.sql(`drop index "${fresh.schema}"."${name}"`);
  await fresh.sql(`alter table stint.job drop constraint job_pkey`);
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, priority, run_at, created_at, payload)
     select ${id}, 'work', 'a', 'ready', 0, now() - (2000000 - n) * interval '1 ms', now(), '{}'
     from generate_series(1, 1000000) n`,
  );
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
     select ${id}, 'work', 'a', 'scheduled', now() + (n - 1000010) * interval '1 day' / 1000, now(), '{}'
     from generate_series(1000001, 1300000) n`,
  );
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, lease_id, lease_until, epoch, attempts)
     select ${id}, 'work', 'a', 'running', now(), now(), '{}', gen_random_uuid(), now() + n * interval '1 s', 1, 1
     from generate_series(1300001, 1300500) n`,
  );
  await fresh.sql(`alter table stint.job add constraint job_pkey primary key (id)`);
  for (const { definition } of indexes) await fresh.sql(definition);
}
