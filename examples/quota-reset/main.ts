/**
 * A daily quota reset at midnight UTC, declared in code. The reset and the success of its job commit together, and the slot time names the
 * day. A job that runs late or twice resets the right day once.
 *
 *   npm run build && node --import jiti/register examples/quota-reset/main.ts
 *
 * Uses the Postgres of DATABASE_URL (schema stint_example only), or an embedded one if that is unset.
 */
import { Client } from "pg";
import { createStint, defineJob, defineSchedule, handle, silentLogger } from "stint";
import { migrate, startEmbedded } from "stint/dev";
import { z } from "zod";

const resetQuotas = defineJob("reset-quotas", { payload: z.object({ plan: z.string() }) });
const dailyReset = defineSchedule("daily-quota-reset", {
  cron: "0 0 * * *",
  zone: "UTC",
  job: resetQuotas,
  payload: { plan: "free" },
  // After an outage over several midnights, one reset is enough.
  catchUp: "last",
  overlap: "skip",
});

const server = process.env["DATABASE_URL"] ? undefined : await startEmbedded();
const database = server?.url ?? process.env["DATABASE_URL"] ?? "";
const schema = process.env["STINT_SCHEMA"] ?? "stint_example";
await migrate({ connection: database, schema });
const db = new Client({ connectionString: database });
await db.connect();
await db.query(
  `create table if not exists ${schema}.quota (account text primary key, used int not null, day date)`,
);
await db.query(
  `insert into ${schema}.quota values ('a', 97, null), ('b', 3, null) on conflict (account) do update set used = 97, day = null`,
);

const stint = createStint({ database, schema, logger: silentLogger });
const worker = stint.worker({
  pools: { default: 1 },
  owner: "billing",
  schedules: [dailyReset],
  handlers: [
    handle(resetQuotas, async ({ schedule, complete }) => {
      const day = (schedule?.slot ?? new Date()).toISOString().slice(0, 10);
      return await complete(async (tx) => {
        await tx.query(`update ${schema}.quota set used = 0, day = $1 where day is distinct from $1`, [day]);
      });
    }),
  ],
});
await worker.start();
console.log(
  "next resets:",
  (await stint.schedules.next("daily-quota-reset", { count: 2 })).map((at) => at.toISOString()).join(", "),
);

// Fires the schedule now instead of waiting until midnight.
const id = await stint.schedules.runNow("daily-quota-reset", { reason: "example" });
await stint.waitFor(id, { timeout: "10s" });
const { rows } = await db.query<{ used: number }>(`select used from ${schema}.quota`);
console.log("used after the reset:", rows.map(({ used }) => used).join(", ")); // 0, 0

await worker.stop();
await stint.close();
await db.query(`drop table ${schema}.quota`);
await db.end();
await server?.stop();
