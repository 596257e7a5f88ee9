import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { defineDependency, defineJob, entry, handle, RateLimitedError, typed } from "#stint/index.js";
import type { ClaimedJob } from "#stint/model/job.js";
import { claim } from "#stint/sql/claim.js";
import { declareDependencies, tendDependencies } from "#stint/sql/dependencies.js";
import { tokensFor, tokensTogether } from "#stint/sql/take-tokens.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

const rate = { limit: 10, perMs: 3_600_000, burst: 10 };
const uses = new Map([["call", ["api"]]]);
const one = { costs: [{ name: "api", cost: 1 }] };

const claimJobs = async (fresh: Fresh, limit: number): Promise<ClaimedJob[]> =>
  await claim(fresh.db, {
    worker: "w",
    leaseId: randomUUID(),
    takes: [{ queue: "default", limit }],
    kinds: ["call"],
    kindLeaseMs: {},
    leaseMs: 60_000,
  });

async function enqueue(fresh: Fresh, count: number): Promise<void> {
  const call = defineJob("call", { payload: typed<number>() });
  await fresh.client().enqueueMany(Array.from({ length: count }, (_, n) => entry(call, n)));
}

const tokensOf = async (fresh: Fresh): Promise<number> =>
  Number(
    (await fresh.sql(`select stint.tokens_of(d, d.credit_at) as tokens from stint.dependency d`))[0]![
      "tokens"
    ],
  );

test("the tokens of a claim are taken together, or none of them", async () => {
  const fresh = await freshSchema();
  await declareDependencies(fresh.db, new Map([["api", { rate }]]), uses, "test");
  expect(await tokensTogether(fresh.db, [one, one, one], { placed: false })).not.toBeNull();
  expect(await tokensOf(fresh)).toBe(7);
  const eight = Array.from({ length: 8 }, () => one);
  expect(await tokensTogether(fresh.db, eight, { placed: false })).toBeNull();
  expect(await tokensOf(fresh)).toBe(7);

  const settings = { rate, concurrency: { max: 5, min: 1, recoverMs: 1_000 } };
  await declareDependencies(fresh.db, new Map([["api", settings]]), uses, "test");
  expect(await tokensTogether(fresh.db, [one], { placed: false })).toBeNull();
  expect(await tokensTogether(fresh.db, [one], { placed: true })).not.toBeNull();
});

test("no job passes those that wait, are let in, or are held back by a pause", async () => {
  const fresh = await freshSchema();
  await declareDependencies(fresh.db, new Map([["api", { rate }]]), uses, "test");
  const refused = async (): Promise<boolean> =>
    (await tokensTogether(fresh.db, [one], { placed: false })) === null;
  const wait = async (letInAt: string): Promise<void> =>
    void (await fresh.sql(
      `insert into stint.dependency_wait (job_id, dependency, cost, priority, run_at, let_in_at)
       values (stint.new_id(), 'api', 1, 0, now(), ${letInAt})`,
    ));
  for (const letInAt of ["null", "now()"]) {
    await wait(letInAt);
    expect(await refused()).toBe(true);
    await fresh.sql(`delete from stint.dependency_wait`);
    expect(await refused()).toBe(false);
  }
  await fresh.client().pauses.pause({ dependency: "api" }, { reason: "test" });
  expect(await refused()).toBe(true);
  await fresh.client().pauses.resume({ dependency: "api" }, { reason: "test" });
  await fresh.sql(`update stint.dependency set slow_until = now() + interval '1 hour'`);
  expect(await refused()).toBe(true);
});

test("jobs that were let in go before a long row of ready jobs", async () => {
  const fresh = await freshSchema();
  await declareDependencies(fresh.db, new Map([["api", { rate }]]), uses, "test");
  await enqueue(fresh, 1_200);
  const first = await claimJobs(fresh, 20);
  const outcomes = await tokensFor(
    fresh.db,
    first.map(({ fence }) => ({ fence, costs: one.costs })),
    { placed: false },
  );
  expect([...outcomes.values()].filter(({ outcome }) => outcome === "taken")).toHaveLength(10);
  // As if an hour had passed.
  await fresh.sql(
    `update stint.dependency set credit_at = credit_at - interval '1 hour', next_at = clock_timestamp()`,
  );
  const { queues } = await tendDependencies(fresh.db);
  // One for each job, so that as many workers wake.
  expect(queues).toEqual(Array<string>(10).fill("default"));

  const next = await claimJobs(fresh, 10);
  const waited = new Set([...outcomes].filter(([, { outcome }]) => outcome === "waits").map(([id]) => id));
  expect(new Set(next.map(({ fence }) => fence.job))).toEqual(waited);
});

test("tokens are used while a long row of jobs is parked one claim after the other", async () => {
  const fresh = await freshSchema();
  await declareDependencies(fresh.db, new Map([["api", { rate }]]), uses, "test");
  await enqueue(fresh, 2_500);
  const take = async (): Promise<void> => {
    const jobs = await claimJobs(fresh, 20);
    await tokensFor(
      fresh.db,
      jobs.map(({ fence }) => ({ fence, costs: one.costs })),
      { placed: false },
    );
  };
  await take();
  await fresh.sql(
    `update stint.dependency set credit_at = credit_at - interval '1 hour', next_at = clock_timestamp()`,
  );
  // No upkeep ran: its lock may be held by statements such as this one.
  await take();
  const [row] = await fresh.sql(
    `select count(*)::integer as count from stint.dependency_wait where let_in_at is not null`,
  );
  expect(row).toEqual({ count: 10 });
});

test("jobs claimed ahead do not start once one of them was refused", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { rate: { limit: 1_000_000, per: "1s" } });
  const call = defineJob("call", { payload: typed<number>(), uses: [api] });
  await stint.enqueueMany(Array.from({ length: 600 }, (_, n) => entry(call, n)));
  let ran = 0;
  const worker = stint.worker({
    pools: { default: 1 },
    handlers: [
      handle(call, () => {
        ran++;
        if (ran === 300) throw new RateLimitedError({ retryAfter: "1h" });
      }),
    ],
  });
  await worker.start();
  await until(async () => (await stint.dependencies.get("api"))?.waiting === 300, {
    message: "the others wait",
  });
  await worker.stop();
  expect(ran).toBe(300);
  const [row] = await fresh.sql(
    `select count(*)::integer as count, max(attempts) as attempts from stint.job where state <> 'succeeded'`,
  );
  expect(row).toEqual({ count: 301, attempts: 0 });
});

test("a concurrency that is set live counts running jobs that SQL enqueued", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const api = defineDependency("api", { rate: { limit: 1_000_000, per: "1s" } });
  const call = defineJob("call", { payload: typed<number>(), uses: [api] });
  const hold = gate();
  let running = 0;
  const worker = stint.worker({
    pools: { default: 10 },
    handlers: [
      handle(call, async () => {
        running++;
        await hold.opened;
      }),
    ],
  });
  await worker.start();
  await fresh.sql(`select stint.enqueue('call', to_jsonb(n)) from generate_series(1, 2) n`);
  await until(() => running === 2, { message: "both run" });
  await stint.dependencies.set("api", { concurrency: 3 }, { reason: "test" });
  expect(await stint.dependencies.get("api")).toMatchObject({ running: 2 });
  await fresh.sql(`select stint.enqueue('call', to_jsonb(n)) from generate_series(1, 5) n`);
  await until(async () => (await stint.dependencies.get("api"))?.waiting === 4 && running === 3, {
    message: "one runs, and the others wait for a place",
  });
  hold.open();
  await worker.stop();
});
