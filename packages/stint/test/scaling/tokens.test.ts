import { expect, onTestFinished, test } from "vitest";
import { defineDependency, defineJob, entry, handle, typed } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";

const pools = [{ name: "calls", queues: ["calls"], slots: 10 }];
const many = 600;
/** In it no month ends within the next hour. */
const zone =
  new Date().getUTCMonth() === new Date(Date.now() + 3_600_000).getUTCMonth() ? "UTC" : "Asia/Tokyo";

/** Jobs of one kind that uses a dependency, and a worker that has declared it and is stopped again. */
async function calls(
  settings: Parameters<typeof defineDependency>[1],
): Promise<{ fresh: Fresh; stint: ReturnType<Fresh["client"]>; run: () => Promise<() => Promise<void>> }> {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("openai", settings);
  const call = defineJob("call", { queue: "calls", payload: typed<object>(), uses: [api] });
  const run = async (): Promise<() => Promise<void>> => {
    const worker = stint.worker({ pools: { calls: 10 }, handlers: [handle(call, () => undefined)] });
    await worker.start();
    const stop = async (): Promise<void> => void (await worker.stop({ drain: 0, abort: 0 }));
    onTestFinished(stop);
    return stop;
  };
  await (
    await run()
  )();
  await stint.enqueueMany(Array.from({ length: many }, () => entry(call, {})));
  return { fresh, stint, run };
}

/** The one pool, as the recommendation sees it for a target of 20 s, in which a job without a run time counts as a second. */
async function read(stint: ReturnType<Fresh["client"]>) {
  return (await stint.inspector().capacity({ pools, target: "20s" })).pools[0]!;
}

test("without a rate, all ready jobs need slots", async () => {
  const { stint } = await calls({ concurrency: 5_000 });
  expect(await read(stint)).toMatchObject({ ready: many, needed: 3 });
});

test("workers are not added for jobs that a rate lets start later", async () => {
  // Within the target, 60 tokens a minute are 20: one slot.
  const { fresh, stint } = await calls({ rate: { limit: 60, per: "1m", burst: 1 } });
  expect(await read(stint)).toMatchObject({ ready: many, needed: 1, recommended: 1 });
  const [row] = await fresh.sql<{ needed: number }>(
    `select stint.workers_needed('[{"queues": ["calls"], "slots": 10}]', '20 s') as needed`,
  );
  expect(row).toEqual({ needed: 1 });
});

test("a job that costs many tokens needs as much less", async () => {
  // Within the target there are 1,200 tokens.
  const { fresh, stint } = await calls({ rate: { limit: 3_600, per: "1m", burst: 10 } });
  expect(await read(stint)).toMatchObject({ needed: 3 });
  await fresh.sql(
    `with parked as (update stint.job set state = 'parked', park_reason = 'limit' returning id, priority, run_at)
     insert into stint.dependency_wait (job_id, dependency, cost, priority, run_at) select id, 'openai', 10, priority, run_at from parked`,
  );
  await fresh.sql(`select stint.recount()`);
  // They are 120 jobs of a second, six slots.
  expect(await read(stint)).toMatchObject({ ready: 0, waiting: many, needed: 1 });
});

test("jobs that wait for tokens are counted, and the dependency is named", async () => {
  const { fresh, stint, run } = await calls({ quota: { limit: 1, per: "month", zone } });
  await run();
  await until(async () => (await fresh.sql(`select from stint.dependency_wait limit 1`)).length > 0, {
    message: "jobs wait for the quota",
  });
  const pool = await until(
    async () => {
      const own = await read(stint);
      return own.running === 0 && own.workers === 1 ? own : undefined;
    },
    { message: "none runs" },
  );
  expect(pool).toMatchObject({
    needed: 0,
    limitedBy: { factor: "dependency", name: "dependency:openai" },
  });
  expect(pool?.waiting).toBeGreaterThan(0);
  expect(pool?.limitedBy.text).toMatch(
    /^Dependency openai is saturated; .* jobs wait for it: more workers will not help$/,
  );
});

test("a dependency that asked for a pause longer than the target needs no workers", async () => {
  const { fresh, stint } = await calls({ rate: { limit: 1_000_000, per: "1s", burst: 1_000_000 } });
  expect(await read(stint)).toMatchObject({ needed: 3 });
  await fresh.sql(`update stint.dependency set slow_until = now() + interval '1 hour'`);
  expect(await read(stint)).toMatchObject({
    needed: 0,
    recommended: 0,
    limitedBy: { factor: "dependency", name: "dependency:openai" },
  });
});

test("a paused dependency needs no workers, and is named", async () => {
  const { stint } = await calls({ concurrency: 5_000 });
  await stint.pauses.pause({ dependency: "openai" }, { reason: "maintenance" });
  expect(await read(stint)).toMatchObject({
    needed: 0,
    recommended: 0,
    drainMs: null,
    limitedBy: {
      factor: "pause",
      name: "dependency:openai",
      text: "Dependency openai is paused: more workers will not help",
    },
  });
});

test("kinds that share a dependency share its tokens; others do not", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { rate: { limit: 120, per: "1m", burst: 1 } });
  const [one, two] = ["one", "two"].map((kind) =>
    defineJob(kind, { queue: "calls", payload: typed<object>(), uses: [api] }),
  );
  const free = defineJob("free", { queue: "calls", payload: typed<object>() });
  const worker = stint.worker({
    pools: { calls: 1 },
    handlers: [one!, two!, free].map((job) => handle(job, () => undefined)),
  });
  await worker.start();
  await worker.stop();
  const jobs = [one!, two!, free].flatMap((job) => Array.from({ length: 1_000 }, () => entry(job, {})));
  await stint.enqueueMany(jobs);
  const rows = await fresh.sql<{ kind: string; needed: number; limit: string | null }>(
    `select kind, round(needed) as needed, full_limit as limit from stint.pool_load('[{"queues": ["calls"], "slots": 1}]', '100 s') order by kind`,
  );
  expect(rows).toEqual([
    { kind: "free", needed: 10, limit: null },
    { kind: "one", needed: 1, limit: "dependency:api" },
    { kind: "two", needed: 1, limit: "dependency:api" },
  ]);
});
