import { randomUUID } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import { nextTurn, firstTurn, type FairTurn, type TenantWeights } from "#stint/model/fairness.js";
import { claimFair } from "#stint/sql/claim-fair.js";
import { forSchema } from "#stint/db/statement.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";

const work = defineJob("work", { queue: "shared", payload: typed<object>() });

async function fairQueue(weights: TenantWeights = {}): Promise<Fresh> {
  const fresh = await freshSchema();
  await fresh
    .client()
    .queueSettings.set("shared", { fair: { by: "tenant", weights } }, { reason: "tenants share" });
  return fresh;
}

/** Enqueue so many jobs of each tenant, all of one after all of the other. */
async function fill(fresh: Fresh, jobs: Record<string, number>): Promise<void> {
  for (const [tenant, count] of Object.entries(jobs))
    await fresh
      .client()
      .enqueueMany(Array.from({ length: count }, () => entry(work, {}, tenant === "" ? {} : { tenant })));
}

/** Claims as one worker sends them, one after the other. */
function claimer(fresh: Fresh, weights: TenantWeights = {}, kinds = ["work"]) {
  let turn: FairTurn = firstTurn;
  return async (limit: number): Promise<(string | null)[]> => {
    const { jobs, last } = await claimFair(fresh.db, {
      worker: "w",
      leaseId: randomUUID(),
      kinds,
      kindLeaseMs: {},
      leaseMs: 60_000,
      queue: "shared",
      limit,
      turn,
      weights,
    });
    if (last !== null) turn = nextTurn(last, jobs.length >= limit);
    return jobs.map(({ tenant }) => tenant);
  };
}

async function times<T>(count: number, run: () => Promise<T[]>): Promise<T[]> {
  const all: T[] = [];
  for (let n = 0; n < count; n++) all.push(...(await run()));
  return all;
}

function counts(tenants: readonly (string | null)[]): Record<string, number> {
  const by: Record<string, number> = {};
  for (const tenant of tenants) by[tenant ?? ""] = (by[tenant ?? ""] ?? 0) + 1;
  return by;
}

test.each([1, 2, 3, 7, 20])("small tenants are served beside a large one, in claims of %i", async (limit) => {
  const fresh = await fairQueue();
  await fill(fresh, { large: 200, a: 5, b: 5, z: 5, "": 5 });
  const claim = claimer(fresh);
  const served: (string | null)[] = [];
  while (served.length < 40) served.push(...(await claim(limit)));

  // Five tenants take turns: after five rounds all jobs of the small ones are claimed.
  expect(counts(served.slice(0, 25 + limit))).toMatchObject({ a: 5, b: 5, z: 5, "": 5 });
});

test.each([1, 3, 4, 10, 50])("weights divide the jobs exactly, in claims of %i", async (limit) => {
  const weights = { gold: 3, "*": 1 };
  const fresh = await fairQueue(weights);
  await fill(fresh, { gold: 200, free: 200 });
  const claim = claimer(fresh, weights);
  const served: (string | null)[] = [];
  while (served.length < 100) served.push(...(await claim(limit)));

  const { gold = 0, free = 0 } = counts(served);
  expect(Math.abs(gold - 3 * free)).toBeLessThanOrEqual(4);
});

test("a tenant with a large weight does not keep the others waiting for ever", async () => {
  const weights = { whale: 10 };
  const fresh = await fairQueue(weights);
  await fill(fresh, { whale: 100, other: 3 });
  const claim = claimer(fresh, weights);

  expect(counts(await times(33, () => claim(1)))).toEqual({ whale: 30, other: 3 });
});

test("one tenant alone fills a whole claim", async () => {
  const fresh = await fairQueue();
  await fill(fresh, { only: 30 });

  expect(await claimer(fresh)(25)).toHaveLength(25);
});

test("jobs of one tenant keep their order by priority and time", async () => {
  const fresh = await fairQueue();
  const stint = fresh.client();
  for (const priority of [5, 0, 3])
    for (const tenant of ["a", "b"]) await stint.enqueue(work, {}, { tenant, priority });
  const { jobs } = await claimFair(fresh.db, {
    worker: "w",
    leaseId: randomUUID(),
    kinds: ["work"],
    kindLeaseMs: {},
    leaseMs: 60_000,
    queue: "shared",
    limit: 10,
    turn: firstTurn,
    weights: {},
  });

  // Priorities order the jobs of one tenant; among tenants, turns decide.
  expect(jobs.map(({ tenant, priority }) => `${tenant}${priority}`)).toEqual([
    "a0",
    "b0",
    "a3",
    "b3",
    "a5",
    "b5",
  ]);
});

test("two workers take each job once, and each serves all tenants", async () => {
  const fresh = await fairQueue();
  await fill(fresh, { large: 100, a: 20, b: 20, c: 20 });
  const [first, second] = [claimer(fresh), claimer(fresh)];
  const got = await Promise.all([first, second].map((claim) => times(10, () => claim(4))));
  const rest = await times(60, () => first(4));

  expect(got.flat().length + rest.length).toBe(160);
  for (const own of got) expect(Object.keys(counts(own)).sort()).toEqual(["a", "b", "c", "large"]);
});

test("tenants whose jobs another session has locked are passed over", async () => {
  const fresh = await fairQueue();
  await fill(fresh, { a: 2, b: 2 });
  const other = await adminClient();
  onTestFinished(async () => await other.end());
  await other.query("begin");
  await other.query(forSchema("select from stint.job where tenant = 'a' for update", fresh.schema));

  expect(await claimer(fresh)(1)).toEqual(["b"]);
});

test("jobs of kinds that the worker does not serve stay", async () => {
  const fresh = await fairQueue();
  await fill(fresh, { a: 2 });

  expect(await claimer(fresh, {}, ["other"])(5)).toEqual([]);
  expect(await claimer(fresh)(5)).toHaveLength(2);
});

test("any text is a tenant", async () => {
  const fresh = await fairQueue({ "%": 2, "*": 1 });
  const tenants = ["%", "_", "'", '"', "\u{1f600}", "\uffff", "é", "É", "a b", "*", "null", "-", "😀😀"];
  await fill(fresh, Object.fromEntries(tenants.map((tenant) => [tenant, 2])));
  const claim = claimer(fresh, { "%": 2, "*": 1 });

  expect(counts(await times(2 * tenants.length, () => claim(1)))).toEqual(
    Object.fromEntries(tenants.map((tenant) => [tenant, 2])),
  );
});
