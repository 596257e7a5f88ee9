/**
 * Every question of the dashboard, timed on a database with ten million finished and one million live jobs:
 *
 *   npm run lab:large              # needs about 10 GB and a few minutes
 *   npm run lab:large -- 0.1       # a tenth of it
 *
 * Fails if one of them takes longer than a second at the median, or returns a status other than 200.
 */
import { Client } from "pg";
import { createDashboard, serveDashboard } from "@stint/dashboard";
import { createStint, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";

const scale = Number(process.argv[2] ?? 1);
const finished = Math.round(10_000_000 * scale);
const live = Math.round(1_000_000 * scale);
const slowestMs = 1_000;
const times = 5;

const postgres = await startEmbedded({
  settings: { shared_buffers: "1GB", max_wal_size: "8GB", jit: "off" },
});
const sql = new Client({ connectionString: postgres.url });
try {
  await sql.connect();
  await migrate({ connection: postgres.url });
  await fill();
  const stint = createStint({ database: postgres.url, logger: silentLogger });
  const dashboard = createDashboard({ stint });
  const served = await serveDashboard(dashboard, { port: 0 });
  const slow = await time(new URL(served.url));
  await served.close();
  await dashboard.close();
  await stint.close();
  if (slow > 0) process.exitCode = 1;
} finally {
  await sql.end().catch(() => undefined);
  await postgres.stop("fast");
}

async function fill(): Promise<void> {
  const part = 500_000;
  await sql.query("set synchronous_commit = off");
  for (let from = 0; from < finished; from += part) {
    console.log(`finished jobs: ${from.toLocaleString("en")} of ${finished.toLocaleString("en")}`);
    await sql.query(
      `insert into stint.history (
         id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, epoch, run,
         key, tenant, tags, reason, payload, log)
       select
         stint.new_id(), 'kind-' || n % 40, 'queue-' || n % 7, case when n % 200 = 0 then 'dead' else 'succeeded' end::stint.job_state,
         0, now(), now(), now() - (n % 6) * interval '1 day', 1, 0, 0, 1, 1, 'key-' || n, 'tenant-' || n % 5000,
         case when n % 10 = 0 then array['nightly'] end, case when n % 200 = 0 then 'out of attempts' end,
         jsonb_build_object('n', n, 'filler', repeat('x', 120)),
         case when n % 200 = 0 then jsonb_build_array(jsonb_build_object(
           'epoch', 1, 'outcome', 'failed', 'startedAt', now(), 'endedAt', now(), 'error',
           jsonb_build_object('name', 'TimeoutError', 'message', 'no answer from partner ' || n % 13))) end
       from generate_series($1::bigint, $2::bigint) n`,
      [from + 1, Math.min(from + part, finished)],
    );
  }
  console.log(`live jobs: ${live.toLocaleString("en")}`);
  await sql.query(
    `insert into stint.job (id, kind, queue, state, priority, run_at, created_at, key, tenant, payload)
     select
       stint.new_id(), 'kind-' || n % 40, 'queue-' || n % 7,
       (array['ready', 'ready', 'ready', 'scheduled', 'retrying'])[1 + n % 5]::stint.job_state, n % 3,
       now() + case when n % 5 >= 3 then interval '1 hour' else interval '-1 minute' end, now(), 'live-' || n,
       'tenant-' || n % 5000, jsonb_build_object('n', n, 'filler', repeat('x', 120))
     from generate_series(1, $1::bigint) n`,
    [live],
  );
  await sql.query(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, epoch, attempts, lease_id, lease_until, worker, claimed_at, payload)
     select stint.new_id(), 'kind-1', 'queue-1', 'running', now(), now(), 1, 1, gen_random_uuid(), now() + interval '1 hour', 'w', now(), '{}'
     from generate_series(1, 1000)`,
  );
  await sql.query(
    `select stint.record_series(jsonb_agg(jsonb_build_object('queue', 'queue-' || k % 7, 'kind', 'kind-' || k, 'succeeded', 100, 'claimed', 100)))
     from generate_series(0, 39) k`,
  );
  await sql.query("select stint.recount()");
  await sql.query("vacuum analyze");
}

async function time(base: URL): Promise<number> {
  const { rows } = await sql.query<{ id: string; state: string }>(
    `(select id, 'ready' as state from stint.job where state = 'ready' limit 1)
     union all (select id, 'dead' from stint.history where state = 'dead' limit 1)
     union all (select id, 'succeeded' from stint.history where state = 'succeeded' limit 1)`,
  );
  const day = new Date(Date.now() - 3 * 86_400_000).toISOString();
  const paths = [
    "health",
    "stats",
    "kinds",
    "workers",
    "slow",
    "operations",
    "series?queue=queue-1&range=1h",
    "series?range=30d",
    "series?kind=kind-3&range=7d",
    "jobs",
    "jobs?state=ready",
    "jobs?state=running",
    "jobs?state=dead",
    "jobs?state=succeeded&kind=kind-17",
    "jobs?queue=queue-3",
    "jobs?tenant=tenant-4242",
    "jobs?tenant=nobody",
    "jobs?kind=nothing",
    "jobs?tag=nightly",
    "jobs?key=key-77",
    "jobs?state=dead&error=partner 7",
    "jobs?error=never said",
    `jobs?since=${day}&kind=kind-2`,
    "jobs/count?state=dead",
    "jobs/count?state=ready",
    "jobs/count?tenant=tenant-7",
    ...rows.map(({ id }) => `jobs/${id}`),
    "../metrics",
  ];
  let slow = 0;
  for (const path of paths) {
    const tooks: number[] = [];
    let status = 0;
    for (let n = 0; n < times; n++) {
      const at = performance.now();
      const response = await fetch(new URL(`api/${path}`, base));
      await response.arrayBuffer();
      tooks.push(performance.now() - at);
      if (response.status !== 200) status = response.status;
    }
    tooks.sort((a, b) => a - b);
    const median = tooks[Math.floor(times / 2)] ?? Infinity;
    const late = median > slowestMs || status !== 0;
    if (late) slow += 1;
    console.log(
      `${median.toFixed(0).padStart(6)} ms (worst ${(tooks.at(-1) ?? 0).toFixed(0)})  ${path}${late ? "   <-- too slow" : ""}${status === 0 ? "" : `   status ${status}`}`,
    );
  }
  return slow;
}
