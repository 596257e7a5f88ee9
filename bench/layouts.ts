/**
 * Compares table layouts. Drains the same jobs through bare SQL under several layouts, interleaved, and prints
 * jobs per second: median and range. The figures are in docs/decisions/0002-layout.md.
 *
 *   node --import jiti/register bench/layouts.ts [--jobs 40000] [--rounds 5] [--batch 250]
 */
import { parseArgs } from "node:util";
import { Client } from "pg";
import { startEmbedded } from "stint/dev";

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "40000" },
    rounds: { type: "string", default: "5" },
    batch: { type: "string", default: "250" },
  },
});
const jobs = Number(values.jobs);
const rounds = Number(values.rounds);
const batch = Number(values.batch);
const connections = 2;

const columns = `
  id uuid primary key, kind text not null, queue text not null, state text not null, priority smallint not null default 0,
  run_at timestamptz not null, created_at timestamptz not null default now(), attempts int not null default 0,
  crashes int not null default 0, interruptions int not null default 0, epoch bigint not null default 0, run int not null default 1,
  lease_id uuid, lease_until timestamptz, worker text, claimed_at timestamptz, max_attempts int, key text, tenant text,
  tags text[], meta jsonb, log jsonb, payload jsonb not null, finished_at timestamptz, result jsonb`;
const finished = `id, kind, queue, state, priority, run_at, created_at, attempts, crashes, interruptions, epoch, run,
  lease_id, worker, claimed_at, max_attempts, key, tenant, tags, meta, log, payload`;
const indexes = `
  create index on job (queue, priority, run_at, id) where state = 'ready';
  create index on job (lease_until) where state = 'running';`;
const history = `
  create table history (like job) partition by range (finished_at);
  create table history_today partition of history for values from (now() - interval '1 day') to (now() + interval '1 day');
  create index on history (id);`;
const attempt = `
  create table attempt (job_id uuid, epoch bigint, worker text, started_at timestamptz, ended_at timestamptz, outcome text, error jsonb);
  create index on attempt (job_id);`;

const lease = `state = 'running', attempts = attempts + 1, epoch = epoch + 1, lease_id = gen_random_uuid(),
  lease_until = now() + interval '30 seconds', worker = 'w', claimed_at = now()`;
const pick = (column: string): string =>
  `select ${column} from job where state = 'ready' and queue = 'q' order by priority, run_at, id limit $1 for update skip locked`;
const byPlace = `update job set ${lease} where ctid = any (array(${pick("ctid")})) and state = 'ready' returning id, epoch, lease_id, payload`;
const byId = `with due as materialized (${pick("id")}) update job set ${lease} from due where job.id = due.id and job.state = 'ready'
  returning job.id, epoch, lease_id, payload`;
const mine = `unnest($1::uuid[], $2::bigint[], $3::uuid[]) as m (id, epoch, lease_id)`;
const fenced = `job.id = m.id and job.epoch = m.epoch and job.lease_id = m.lease_id`;
const move = `with gone as (delete from job using ${mine} where ${fenced} returning ${finished.replaceAll(/\b(id|epoch|lease_id)\b/g, "job.$1")})`;
const archive = `insert into history (${finished}, finished_at)
  select ${finished.replace("state", "'succeeded'")}, now() from gone`;

type Layout = { name: string; schema: string; claim: string; settle: string };
const layouts: Layout[] = [
  {
    name: "one table, settle updates the row",
    schema: `create table job (${columns}); ${indexes}`,
    claim: byPlace,
    settle: `update job set state = 'succeeded', lease_id = null, lease_until = null, finished_at = now() from ${mine} where ${fenced}`,
  },
  {
    name: "live and history, claim by id",
    schema: `create table job (${columns}); ${indexes} ${history}`,
    claim: byId,
    settle: `${move} ${archive}`,
  },
  {
    name: "live and history, claim by place (chosen)",
    schema: `create table job (${columns}); ${indexes} ${history}`,
    claim: byPlace,
    settle: `${move} ${archive}`,
  },
  {
    name: "the same and a row per attempt",
    schema: `create table job (${columns}); ${indexes} ${history} ${attempt}`,
    claim: byPlace,
    settle: `${move}, noted as (insert into attempt select id, epoch, worker, claimed_at, now(), 'succeeded', null from gone) ${archive}`,
  },
  {
    name: "the same, no history kept",
    schema: `create table job (${columns}); ${indexes}`,
    claim: byPlace,
    settle: `delete from job using ${mine} where ${fenced}`,
  },
];

const server = await startEmbedded({ settings: { shared_buffers: "1GB", max_wal_size: "4GB" } });
const rates = new Map<string, number[]>();
try {
  for (let round = 0; round < rounds; round++) {
    for (const layout of layouts) {
      const rate = await drain(layout);
      rates.set(layout.name, [...(rates.get(layout.name) ?? []), rate]);
      console.error(`round ${round + 1} of ${rounds}: ${layout.name}: ${Math.round(rate)}/s`);
    }
  }
} finally {
  await server.stop();
}
for (const [name, all] of rates) {
  const sorted = all.sort((a, b) => a - b).map(Math.round);
  console.log(
    `${name.padEnd(45)} ${sorted[Math.floor(sorted.length / 2)]}/s  [${sorted[0]}-${sorted.at(-1)}]`,
  );
}

async function drain({ schema, claim, settle }: Layout): Promise<number> {
  const clients = await Promise.all(Array.from({ length: connections }, connect));
  const [first] = clients;
  if (first === undefined) throw new Error("no connection");
  await first.query(`drop table if exists job, history, attempt cascade; ${schema}`);
  await first.query(
    `insert into job (id, kind, queue, state, run_at, payload)
     select gen_random_uuid(), 'noop', 'q', 'ready', now(), jsonb_build_object('n', n, 'filler', repeat('x', 80))
     from generate_series(1, $1) n`,
    [jobs],
  );
  await first.query("vacuum analyze");
  const start = performance.now();
  await Promise.all(
    clients.map(async (client) => {
      for (;;) {
        const { rows } = await client.query<{ id: string; epoch: string; lease_id: string }>({
          name: "claim",
          text: claim,
          values: [batch],
        });
        if (rows.length === 0) return;
        const fence = [
          rows.map((row) => row.id),
          rows.map((row) => row.epoch),
          rows.map((row) => row.lease_id),
        ];
        await client.query({ name: "settle", text: settle, values: fence });
      }
    }),
  );
  const seconds = (performance.now() - start) / 1000;
  await Promise.all(clients.map((client) => client.end()));
  return jobs / seconds;
}

async function connect(): Promise<Client> {
  const client = new Client({ connectionString: server.url });
  await client.connect();
  return client;
}
