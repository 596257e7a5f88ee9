/**
 * What a job costs while many workers are idle: claims, processor time of workers and server, and the time until the job starts. Once with wakes
 * for every worker, once with wakes that name workers. The figures behind docs/decisions/0043-counted-wakes.md.
 *
 *   npm run lab:wakes
 */
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { createStint, defineJob, handle, silentLogger, typed, type Worker } from "stint";
import { migrate, startEmbedded } from "stint/dev";

const jobs = 100;
const perSecond = 20;
const fleets = process.argv.slice(2).map(Number);

const server = await startEmbedded({
  settings: { shared_preload_libraries: "pg_stat_statements", max_connections: "300", jit: "off" },
});
const sql = new Client({ connectionString: server.url });
const work = defineJob("work", { payload: typed<null>() });
const startedAt = new Map<string, number>();

try {
  await sql.connect();
  await sql.query("create extension pg_stat_statements");
  await migrate({ connection: server.url });
  const { rows } = await sql.query<{ text: string }>(
    "select pg_get_functiondef('stint.ready_hint(text, bigint)'::regprocedure) as text",
  );
  const counted = rows[0]?.text ?? "";
  const forAll = `create or replace function stint.ready_hint(p_queue text, p_jobs bigint) returns text
    language sql volatile security definer as $$ select 'ready:' || p_queue $$`;
  for (const workers of fleets.length > 0 ? fleets : [1, 2, 10, 50]) {
    for (const [name, definition] of [
      ["every worker", forAll],
      ["counted", counted],
    ] as const) {
      await sql.query(definition);
      console.log(`${workers} idle, wakes for ${name}: ${await measure(workers)}`);
    }
  }
} finally {
  await sql.end().catch(() => undefined);
  await server.stop("fast");
}

async function measure(count: number): Promise<string> {
  const fleet = createStint({ database: server.url, logger: silentLogger });
  const workers: Worker[] = [];
  for (let n = 0; n < count; n++) {
    const handlers = [handle(work, ({ id }) => void startedAt.set(id, performance.now()))];
    workers.push(fleet.worker({ pools: { default: 10 }, signals: false, handlers }));
  }
  await Promise.all(workers.map((worker) => worker.start()));
  const producer = createStint({ database: server.url, logger: silentLogger });
  // The first looks around of the workers take eight seconds.
  await sleep(10_000);
  for (let n = 0; n < 20; n++) {
    await producer.enqueue(work, null);
    await sleep(1_000 / perSecond);
  }
  await sql.query("select pg_stat_statements_reset()");
  const before = { own: process.cpuUsage(), server: serverCpuMs() };
  const waits: number[] = [];
  const begun = performance.now();
  for (let n = 0; n < jobs; n++) {
    await sleep(Math.max(0, begun + (n * 1_000) / perSecond - performance.now()));
    const sentAt = performance.now();
    const { id } = await producer.enqueue(work, null);
    while (!startedAt.has(id)) await sleep(1);
    waits.push((startedAt.get(id) ?? 0) - sentAt);
  }
  const own = process.cpuUsage(before.own);
  const serverMs = serverCpuMs() - before.server;
  const { rows } = await sql.query<{ calls: string }>(
    "select coalesce(sum(calls), 0) as calls from pg_stat_statements where query ~ 'j[.]ctid = any'",
  );
  await producer.close();
  await fleet.close();
  waits.sort((a, b) => a - b);
  const at = (share: number): string => (waits[Math.floor(share * waits.length)] ?? 0).toFixed(1);
  const cpu = [(own.user + own.system) / 1_000, serverMs].map((ms) => (ms / jobs).toFixed(1));
  return `${(Number(rows[0]?.calls) / jobs).toFixed(1)} claims a job, CPU of workers ${cpu[0]} ms, of the server ${cpu[1]} ms, start p50 ${at(0.5)} ms, p95 ${at(0.95)} ms`;
}

/** Processor time of all processes of the server, as Linux has it. Its sessions live as long as the workers. */
function serverCpuMs(): number {
  let ticks = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const [, parent, ...fields] =
        readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? [];
      if (Number(parent) === server.pid) ticks += Number(fields[9]) + Number(fields[10]);
    } catch {
      // It has ended.
    }
  }
  return ticks * 10;
}
