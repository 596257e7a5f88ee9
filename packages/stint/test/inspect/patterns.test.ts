import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { selectPools, served } from "#stint/cli/serving.js";
import { unserved } from "#stint/sql/kinds.js";
import { registerWorker } from "#stint/sql/workers.js";
import { add, addOne } from "../sql/jobs.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { jobsOf } from "./inspectors.ts";

/** A worker that serves every queue of tenants with 20 slots, that of `tenant-vip` with 5, and long names with 3. */
async function register(fresh: Fresh): Promise<void> {
  const pools = { "tenant-*": 20, "tenant-vip": 5, "tenant-long_*": 3 };
  await registerWorker(fresh.db, { id: "w", host: "h", pid: 1, version: "0", pools, kinds: ["work"] });
}

test.each([
  ["tenant-vip", "tenant-vip"],
  ["tenant-7", "tenant-*"],
  ["tenant-", "tenant-*"],
  ["tenant-long_7", "tenant-long_*"],
  // The underline stands for itself.
  ["tenant-longx7", "tenant-*"],
  ["xtenant-7", null],
  ["tenant", null],
])("a queue is served by its name, then by the longest pattern: %s as %s", async (queue, key) => {
  const fresh = await freshSchema();
  await register(fresh);
  const rows = await fresh.sql(`select stint.served_as(pools, $1) as key from stint.worker`, [queue]);

  expect(rows).toEqual([{ key }]);
});

test("a kind in a queue that a pattern matches is not reported as unserved", async () => {
  const fresh = await freshSchema();
  await register(fresh);
  await add(fresh.db, [
    { queue: "tenant-7" },
    { queue: "tenant-7", kind: "orphan" },
    { queue: "tenant-vip" },
    { queue: "tenants" },
  ]);
  await fresh.sql(`update stint.job set run_at = now() - interval '1 minute'`);
  const found = await unserved(fresh.db, 10_000);

  expect(found.map(({ kind, queue }) => `${kind} on ${queue}`).sort()).toEqual([
    "orphan on tenant-7",
    "work on tenants",
  ]);
});

test("a wait is explained by the pool whose pattern serves the queue, and its slots", async () => {
  const fresh = await freshSchema();
  await register(fresh);
  const free = await addOne(fresh.db, { queue: "tenant-7" });
  const other = await addOne(fresh.db, { queue: "elsewhere" });
  const jobs = jobsOf(fresh);
  expect((await jobs.why(free))?.summary).toContain("1 worker serves it and has free slots");
  expect((await jobs.why(other))?.summary).toContain("No worker serves queue elsewhere");

  // Others of the same pool are in all of its slots.
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, lease_id, lease_until, worker, epoch, attempts)
     select gen_random_uuid(), 'work', 'tenant-' || n, 'running', now(), now(), '{}', gen_random_uuid(), now() + interval '1 h',
       'w', 1, 1
     from generate_series(100, 119) n`,
  );
  expect((await jobs.why(free))?.summary).toContain("All 20 slots for queue tenant-7 are busy");
});

test("health and kinds count a pattern's slots per matching queue, not as a queue", async () => {
  const fresh = await freshSchema();
  await register(fresh);
  await add(fresh.db, [{ queue: "tenant-7" }, { queue: "tenant-vip" }]);
  const inspector = fresh.client().inspector();
  const { queues } = await inspector.health();
  const kinds = await inspector.kinds();

  expect(Object.fromEntries(queues.map(({ queue, slots }) => [queue, slots.total]))).toEqual({
    "tenant-7": 20,
    "tenant-vip": 5,
  });
  expect(kinds.map(({ queue, workers }) => [queue, workers])).toEqual([
    ["tenant-7", 1],
    ["tenant-vip", 1],
  ]);
});

test("the needed workers count the queues that patterns match, each for one pool", async () => {
  const fresh = await freshSchema();
  const jobs = (queue: string, count: number): Promise<unknown> =>
    add(
      fresh.db,
      Array.from({ length: count }, () => ({ queue })),
    );
  await jobs("tenant-1", 60);
  await jobs("tenant-2", 60);
  await jobs("tenant-vip", 30);
  await jobs("elsewhere", 500);
  const needed = async (...pools: object[]): Promise<unknown> =>
    (
      await fresh.sql<{ n: number }>(`select stint.workers_needed($1, interval '10 s') as n`, [
        JSON.stringify(pools),
      ])
    )[0]?.n;

  const tenants = { queues: ["tenant-*"], slots: 1 };
  expect(await needed(tenants)).toBe(15);
  expect(await needed(tenants, { queues: ["tenant-vip"], slots: 100 })).toBe(12);
  expect(await needed({ queues: ["nothing-*"], slots: 1 })).toBe(0);
});

test("--pool accepts a pattern pool, with the handlers whose queue it matches", () => {
  const tenant = defineJob("tenant", { queue: "tenant-0", payload: typed<object>() });
  const mail = defineJob("mail", { queue: "mail", payload: typed<object>() });
  const options = {
    pools: { "tenant-*": 20, mail: 1 },
    handlers: [tenant, mail].map((definition) => handle(definition, () => undefined)),
  };

  expect(served(options)).toEqual([
    { pool: "tenant-*", queues: ["tenant-*"], slots: 20, kinds: ["tenant"] },
    { pool: "mail", queues: ["mail"], slots: 1, kinds: ["mail"] },
  ]);
  expect(selectPools(options, ["tenant-*"]).handlers).toHaveLength(1);
});
