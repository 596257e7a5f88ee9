import { inLab } from "../support/lab.ts";

/** The id of the job enqueued `n` seconds after the beginning of 2026; `low` keeps those of one second apart. */
export const idOf = (n: number, low = 0): string => {
  const time = (Date.UTC(2026, 0, 1) + n * 1_000).toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${low.toString(16).padStart(12, "0")}`;
};

const sqlId = (low: number): string => `(
  overlay(lpad(to_hex(${Date.UTC(2026, 0, 1)} + n::bigint * 1000), 12, '0') placing '-' from 9 for 0)
  || '-7000-8000-' || lpad(to_hex(${low}), 12, '0'))::uuid`;

/** More than there are live jobs, so that the newest jobs are among them. */
export const succeeded = inLab ? 200_000 : 110_000;

/**
 * Many that succeeded over seven days, 50,000 dead and 100,000 live, one of each a second. Every thousandth is of the
 * kind `rare`, and two of the dead died of `ENOSPC`. Nothing is analysed: the planner knows nothing of them.
 */
export async function fill(sql: (text: string) => Promise<unknown>): Promise<void> {
  await sql(
    `insert into stint.history (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes,
       interruptions, epoch, run, payload)
     select ${sqlId(1)}, case when n % 1000 = 0 then 'rare' else 'work' end, 'a', 'succeeded', 0, now(), now(),
       now() + (n / ${Math.ceil(succeeded / 7)}) * interval '1 day', 1, 0, 0, 1, 1, '{}'
     from generate_series(1, ${succeeded}) n`,
  );
  await sql(
    `insert into stint.history (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes,
       interruptions, epoch, run, reason, payload, log)
     select ${sqlId(2)}, 'work', 'a', 'dead', 0, now(), now(), now(), 1, 0, 0, 1, 1, 'attempts exhausted', '{}',
       jsonb_build_array(jsonb_build_object('epoch', 1, 'worker', 'w', 'startedAt', now(), 'endedAt', now(),
         'outcome', 'failed', 'error', jsonb_build_object('class', 'Error',
           'message', case when n in (100, 49000) then 'ENOSPC: no space' else 'boom' end)))
     from generate_series(1, 50000) n`,
  );
  await sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, park_reason, lease_id, lease_until, worker)
     select ${sqlId(3)}, case when n % 1000 = 0 then 'rare' else 'work' end, case when n % 1000 = 1 then 'b' else 'a' end,
       s.state::stint.job_state, now(), now(), '{}',
       case when s.state = 'parked' then 'quarantine' end,
       case when s.state = 'running' then gen_random_uuid() end, case when s.state = 'running' then now() end, 'w'
     from generate_series(1, 100000) n,
       lateral (select case when n % 5000 = 2 then 'running' when n % 5000 = 3 then 'parked' when n % 5 = 4 then 'scheduled'
         else 'ready' end as state) s`,
  );
}
