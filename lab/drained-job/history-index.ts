/**
 * What a look-up of a finished job by its id costs with a B-tree on the ids of the history, as it is, and with BRIN: on ids in the order of
 * time, with one in a thousand that is a day old, and with random ids, which callers may give.
 *
 *   npm run lab:history-index -- [--rows 1000000]
 */
import { parseArgs } from "node:util";
import { Client } from "pg";
import { migrate, startEmbedded } from "stint/dev";

const { values } = parseArgs({ options: { rows: { type: "string", default: "1000000" } } });
const times = 50;

const idAt = (time: string): string =>
  `(lpad(to_hex((extract(epoch from ${time}) * 1000)::bigint), 12, '0') || '7' || substr(md5(n::text), 14, 19))::uuid`;
const ids: Record<string, string> = {
  "in the order of time": idAt("now() + n * interval '0.02 ms'"),
  "one in a thousand a day old": idAt(
    "now() + n * interval '0.02 ms' - (n % 1000 = 0)::integer * interval '1 day'",
  ),
  random: "gen_random_uuid()",
};
const indexes: Record<string, string> = {
  "B-tree": "(id)",
  BRIN: "using brin (id uuid_minmax_multi_ops)",
  "BRIN, 16 pages": "using brin (id uuid_minmax_multi_ops) with (pages_per_range = 16)",
};

const server = await startEmbedded({ settings: { shared_buffers: "1GB", max_wal_size: "4GB", jit: "off" } });
const client = new Client({ connectionString: server.url });
try {
  await client.connect();
  await migrate({ connection: server.url });
  await client.query("drop index stint.history_id; set synchronous_commit = off");
  for (const [order, id] of Object.entries(ids)) {
    await client.query("truncate stint.history");
    await client.query(
      `insert into stint.history (
         id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, epoch, run, payload)
       select ${id}, 'noop', 'default', 'succeeded', 0, now(), now(), now(), 1, 0, 0, 1, 1,
         jsonb_build_object('n', n, 'filler', repeat('x', 60))
       from generate_series(1, $1::integer) n`,
      [Number(values.rows)],
    );
    for (const [name, definition] of Object.entries(indexes)) {
      await client.query(`create index history_id on stint.history ${definition}`);
      await client.query("vacuum analyze stint.history");
      console.log(`ids ${order}, ${name}: ${(await lookUpMs()).toFixed(2)} ms, ${await size()}`);
      await client.query("drop index stint.history_id");
    }
  }
} finally {
  await client.end();
  await server.stop("fast");
}

async function lookUpMs(): Promise<number> {
  const { rows } = await client.query<{ id: string }>(
    `select id from stint.history tablesample system (1) limit ${times}`,
  );
  const took: number[] = [];
  for (const { id } of rows) {
    const startedAt = performance.now();
    await client.query({
      name: "find",
      text: "select id, state from stint.history where id = any ($1)",
      values: [[id]],
    });
    took.push(performance.now() - startedAt);
  }
  return took.sort((a, b) => a - b)[Math.floor(took.length / 2)] ?? 0;
}

async function size(): Promise<string> {
  const { rows } = await client.query<{ size: string }>(
    `select pg_size_pretty(sum(pg_relation_size(i.indexrelid))) as size from pg_index i
     where i.indrelid in (select relid from pg_partition_tree('stint.history') where isleaf)
       and i.indkey::text = (select attnum::text from pg_attribute where attrelid = 'stint.history'::regclass and attname = 'id')`,
  );
  return rows[0]?.size ?? "";
}
