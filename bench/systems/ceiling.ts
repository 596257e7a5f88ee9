/** Not a queue: only the statements that any queue on Stint's tables needs. */
import { randomUUID } from "node:crypto";
import { Client as PgClient, Pool, type ClientBase } from "pg";
import type { Client, Config, Payload, Stores } from "../core/types.ts";
import { Sql } from "./sql.ts";
import { fillTables, kind, prepareTables, queue, tablesPending } from "./stint-tables.ts";

const batch = 500;
const claimConnections = 2;
const producerConnections = 50;

const columns = `id, kind, queue, state, priority, run_at, created_at`;
const insertOne = `insert into stint.job (${columns}, payload) values ($1, '${kind}', '${queue}', 'ready', 0, now(), now(), $2)`;
/** For the config `fast`: the minimum for a prompt and durable job, which is one commit to enqueue and one to claim. */
const insertAndWake = `with one as (${insertOne}) select pg_notify('bench_ceiling', '')`;
const insertMany = `insert into stint.job (${columns}, payload)
  select id, '${kind}', '${queue}', 'ready', 0, now(), now(), payload from unnest($1::uuid[], $2::jsonb[]) as row (id, payload)`;
const claim = `
  update stint.job
  set state = 'running', attempts = attempts + 1, epoch = epoch + 1, lease_id = $2,
    lease_until = clock_timestamp() + interval '30 seconds', worker = 'ceiling', claimed_at = clock_timestamp()
  where ctid = any (array(
      select ctid from stint.job where state = 'ready' and queue = '${queue}'
      order by queue, priority, run_at, id limit $1 for update skip locked))
    and state::text = 'ready'
  returning id, epoch, lease_id, payload`;
const moved = `id, kind, queue, priority, run_at, created_at, attempts, crashes, interruptions, epoch, run, lease_id, worker,
  claimed_at, max_attempts, max_crashes, timeout_ms, lease_ms, key, tenant, tags, reason, meta, payload, log`;
const settle = `
  with gone as (
    delete from stint.job j using unnest($1::uuid[], $2::bigint[], $3::uuid[]) as m (m_id, m_epoch, m_lease_id)
    where j.id = m_id and j.epoch = m_epoch and j.lease_id = m_lease_id
    returning ${moved})
  insert into stint.history (state, finished_at, ${moved})
  select 'succeeded', clock_timestamp(), ${moved} from gone`;

type Claimed = { id: string; epoch: string; lease_id: string; payload: Payload };

export async function open({ postgres }: Stores, config: Config): Promise<Client> {
  const wakes = config === "fast";
  const sql = new Sql(postgres);
  const pool = new Pool({ connectionString: postgres, max: producerConnections });
  const workers: PgClient[] = [];
  const stopping = new AbortController();
  const insert = async (on: ClientBase | Pool, payload: Payload): Promise<unknown> =>
    await on.query({
      name: "insert",
      text: wakes ? insertAndWake : insertOne,
      values: [newId(), JSON.stringify(payload)],
    });

  async function drain(client: PgClient, onJob: (payload: Payload) => Promise<void>): Promise<void> {
    let settling: Promise<unknown> = Promise.resolve();
    while (!stopping.signal.aborted) {
      // Pipelined behind the settle of the previous batch, so that the server never waits for the next statement.
      const { rows } = await client.query<Claimed>({
        name: "claim",
        text: claim,
        values: [batch, randomUUID()],
      });
      for (const { payload } of rows) void onJob(payload);
      await settling;
      if (rows.length === 0) await (wakes ? woken() : pause());
      else {
        const fence = [
          rows.map((row) => row.id),
          rows.map((row) => row.epoch),
          rows.map((row) => row.lease_id),
        ];
        settling = client.query({ name: "settle", text: settle, values: fence });
      }
    }
  }

  let isWoken = false;
  let onWake = (): void => undefined;
  async function listen(): Promise<void> {
    const client = new PgClient({ connectionString: postgres });
    client.on("error", () => undefined);
    client.on("notification", () => {
      isWoken = true;
      onWake();
    });
    await client.connect();
    await client.query("listen bench_ceiling");
    workers.push(client);
  }
  async function woken(): Promise<void> {
    if (!isWoken)
      await new Promise<void>((resolve) => {
        onWake = resolve;
      });
    isWoken = false;
  }

  return {
    prepare: async () => await prepareTables(sql, postgres),
    enqueueOne: async (payload) => await insert(pool, payload),
    enqueueBulk: async (payloads) =>
      await pool.query({
        name: "insert-many",
        text: insertMany,
        values: [payloads.map(newId), payloads.map((payload) => JSON.stringify(payload))],
      }),
    enqueueInTransaction: async (tx, payload) => await insert(tx, payload),
    fill: async (count, state) => await fillTables(sql, count, state),
    pending: async () => await tablesPending(sql),
    work: async (onJob) => {
      if (wakes) await listen();
      const drainers: PgClient[] = [];
      for (let n = 0; n < (wakes ? 1 : claimConnections); n++) {
        const client = new PgClient({ connectionString: postgres });
        client.on("error", () => undefined);
        await client.connect();
        workers.push(client);
        drainers.push(client);
      }
      for (const client of drainers) void drain(client, onJob).catch(() => process.exit(1));
    },
    close: async () => {
      stopping.abort();
      await Promise.all([sql.end(), pool.end()]);
    },
  };
}

/** The default polls an empty queue: it has no wakes. */
async function pause(): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, 2);
  });
}

let counter = 0;

/** A UUIDv7, in order within this process. */
function newId(): string {
  const time = Date.now().toString(16).padStart(12, "0");
  counter = (counter + 1) % 0x1000;
  return `${time.slice(0, 8)}-${time.slice(8)}-7${counter.toString(16).padStart(3, "0")}${randomUUID().slice(18)}`;
}
