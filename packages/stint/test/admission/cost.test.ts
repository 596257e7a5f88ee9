/** What admission and fairness cost the enqueues of queues that have neither. */
import type { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { fewestBlocks } from "../support/blocks.ts";
import { adminClient } from "../support/database.ts";
import { unusedSchema, type Fresh } from "../support/fresh.ts";
import { forSchema } from "#stint/db/statement.js";
import { planned, prepare } from "../sql/explain.ts";
import { calls } from "../sql/statements.ts";

const statements = {
  enqueue_new: `select stint.enqueue_new(array[stint.new_id()], '{work}', '{main}', '[{}]', null, false)`,
  enqueue_rows: `select * from stint.enqueue_rows(jsonb_build_array(jsonb_build_object(
    'id', stint.new_id(), 'kind', 'work', 'queue', 'main', 'payload', '{}'::jsonb, 'dedupe_key', stint.new_id())), false)`,
};

async function session(fresh: Fresh): Promise<Client> {
  const client = await adminClient(fresh.url);
  onTestFinished(() => client.end());
  return client;
}

const costs = async (client: Client, fresh: Fresh): Promise<number[]> => [
  await fewestBlocks(client, fresh, statements.enqueue_new),
  await fewestBlocks(client, fresh, statements.enqueue_rows),
];

const queues = 5_000;
const targetAges = `insert into stint.queue (name, updated_by, target_age_ms)
  select 'q' || n, 'test', 1000 from generate_series(1, ${queues}) n`;
const settings = (column: string, value: string): string =>
  `insert into stint.queue (name, updated_by, ${column})
   select 'q-${column}-' || n, 'test', '${value}' from generate_series(1, ${queues}) n`;

test("settings of other queues cost an enqueue and an idle check next to nothing", async () => {
  const fresh = await unusedSchema();
  const client = await session(fresh);
  const before = await costs(client, fresh);

  await fresh.sql(targetAges);
  for (const each of [client, await session(fresh)]) {
    const [one, many] = await costs(each, fresh);
    expect([one! - before[0]!, many! - before[1]!].every((more) => more <= 4)).toBe(true);
  }
  const nodes = await planned(client, await prepare(client, fresh.schema, calls["idleCheck"]!));
  const read = nodes.filter((node) => node["Relation Name"] === "queue").map((node) => node["Index Name"]);
  expect(read).toEqual(["queue_rule", "queue_rule"]);

  await fresh.sql(settings("admission", '{"maxDepth": 100, "policy": "reject"}'));
  await fresh.sql(settings("fair", '{"by": "tenant", "weights": {}}'));
  await fresh.sql("analyze stint.queue");
  const [one, many] = await costs(client, fresh);
  expect([one! - before[0]!, many! - before[1]!].every((more) => more <= 20)).toBe(true);
});

test("an enqueue asks for admission settings only where a queue has some", async () => {
  const fresh = await unusedSchema();
  const client = await session(fresh);
  const askedBy = async (rows: string): Promise<number> => {
    await client.query("begin; set local track_functions = 'all'");
    await client.query(forSchema(`select * from stint.enqueue_rows(${rows}, false)`, fresh.schema));
    const { rows: found } = await client.query<{ calls: number }>(
      `select calls::integer from pg_stat_xact_user_functions where schemaname = $1 and funcname = 'admission_of'`,
      [fresh.schema],
    );
    await client.query("rollback");
    return found[0]?.calls ?? 0;
  };
  const rows = `(select jsonb_agg(jsonb_build_object(
    'id', stint.new_id(), 'kind', 'work', 'queue', 'main', 'tenant', 'acme', 'payload', '{}'::jsonb, 'dedupe_key', n, 'dedupe_ms', 1000))
    from generate_series(1, 20) n)`;
  expect(await askedBy(rows)).toBe(0);
});
