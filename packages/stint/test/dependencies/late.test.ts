import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { defineDependency, defineJob, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { recordTokens, tokenHistory } from "../support/token-history.ts";
import { until } from "../support/until.ts";

test("tokens whose response came more than a second late are taken again", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await recordTokens(fresh);
  const api = defineDependency("api", {
    rate: { limit: 1_000, per: "1s" },
    quota: { limit: 1_000, per: "month" },
  });
  const call = defineJob("call", { payload: typed<null>(), uses: [api] });
  let ran = 0;
  const worker = stint.worker({ pools: { default: 1 }, handlers: [handle(call, () => void ran++)] });
  await worker.start();
  const blocker = new Client({ connectionString: fresh.url });
  await blocker.connect();
  onTestFinished(() => blocker.end());
  await blocker.query(`begin; select from "${fresh.schema}".dependency for update`);
  const { id } = await stint.enqueue(call, null);
  // The worker waits for the lock, and so does the response.
  const waitedMs = `(
    select extract(epoch from clock_timestamp() - a.query_start) * 1000
    from pg_locks l join pg_stat_activity a on a.pid = l.pid
    where not l.granted and l.transactionid is not null and a.query like '%stint:take-tokens%' and a.query like '%' || $1 || '%'
  )`;
  await until(
    async () => {
      const [row] = await fresh.sql<{ ms: number | null }>(`select ${waitedMs}::float8 as ms`, [
        fresh.schema,
      ]);
      return (row?.ms ?? 0) > 1_200;
    },
    { message: "the statement has waited for more than a second" },
  );
  await blocker.query("commit");
  await stint.waitFor(id);
  await worker.stop();

  expect(ran).toBe(1);
  const history = await tokenHistory(fresh);
  expect(history.reduce((sum, { used }) => sum + used, 0)).toBeGreaterThanOrEqual(2);
  expect((await stint.get(id))?.attempts).toBe(1);
});
