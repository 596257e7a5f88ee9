import { expect, test } from "vitest";
import type { JobFilter, JobPage, JobRow } from "#stint/inspect.js";
import { newId } from "#stint/runtime/new-id.js";
import { finish } from "#stint/sql/finish.js";
import { requeue } from "#stint/sql/requeue.js";
import { toSearch } from "#stint/inspect/filter.js";
import { countUpTo, findPage } from "#stint/inspect/bounded-search.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { add, addOne, auditInfo, running, take } from "../sql/jobs.ts";
import { cancel } from "#stint/sql/operate.js";
import { idOf } from "./filled.ts";
import { jobsOf } from "./inspectors.ts";

const ids = (page: { jobs: readonly JobRow[] }): string[] => page.jobs.map((job) => job.id);

async function all(fresh: Fresh, filter: JobFilter, limit = 2): Promise<string[]> {
  const jobs = jobsOf(fresh);
  const found: string[] = [];
  for (let after: string | null | undefined; after !== null;) {
    const page: JobPage = await jobs.jobs({ ...filter, limit, ...(after === undefined ? {} : { after }) });
    found.push(...ids(page));
    after = page.next;
  }
  return found;
}

/** One job in every state, with the fields that distinguish them. */
async function oneOfEach(fresh: Fresh): Promise<Record<string, string>> {
  const { db } = fresh;
  const dead = await running(db, { kind: "work", key: "k1", tenant: "acme", tags: ["red", "blue"] });
  await finish(db, [
    {
      fence: dead,
      state: "dead",
      result: null,
      reason: "attempts exhausted",
      ending: { outcome: "failed", error: { class: "TypeError", message: "x is not a Function" } },
    },
  ]);
  const succeeded = await running(db);
  await finish(db, [{ fence: succeeded, state: "succeeded", result: "1", reason: null, ending: null }]);
  const cancelled = await addOne(db, { key: "k1" });
  await cancel(db, cancelled, auditInfo("not wanted"));
  const retrying = await running(db);
  await requeue(db, [
    {
      fence: retrying,
      state: "retrying",
      delayMs: 60_000,
      countsAs: "attempt",
      ending: { outcome: "failed", error: { class: "Error", message: "100% full_disk" } },
    },
  ]);
  const parked = await addOne(db);
  await fresh.sql(`update stint.job set state = 'parked', park_reason = 'quarantine' where id = $1`, [
    parked,
  ]);
  const running_ = await running(db, { kind: "work" });
  const ready = await addOne(db, { kind: "other", queue: "b" });
  const scheduled = await addOne(db, { delay_ms: 60_000 });
  return {
    dead: dead.job,
    succeeded: succeeded.job,
    cancelled,
    retrying: retrying.job,
    parked,
    running: running_.job,
    ready,
    scheduled,
  };
}

test("every filter finds exactly its jobs, newest first", async () => {
  const fresh = await freshSchema();
  const its = await oneOfEach(fresh);
  const everything = Object.values(its).sort().reverse();

  expect(await all(fresh, {})).toEqual(everything);
  for (const [state, id] of Object.entries(its)) {
    expect(await all(fresh, { state: state as "dead" })).toEqual([id]);
  }
  expect(await all(fresh, { state: ["dead", "ready"] })).toEqual([its["ready"], its["dead"]]);
  expect(await all(fresh, { state: ["running", "parked", "scheduled"] })).toEqual([
    its["scheduled"],
    its["running"],
    its["parked"],
  ]);
  expect(await all(fresh, { kind: "other" })).toEqual([its["ready"]]);
  expect(await all(fresh, { queue: "b" })).toEqual([its["ready"]]);
  expect(await all(fresh, { queue: "b", state: ["ready", "running"] })).toEqual([its["ready"]]);
  expect(await all(fresh, { queue: "main", state: "ready" })).toEqual([]);
  expect(await all(fresh, { key: "k1" })).toEqual([its["cancelled"], its["dead"]]);
  expect(await all(fresh, { key: "k1", state: "dead" })).toEqual([its["dead"]]);
  expect(await all(fresh, { tenant: "acme" })).toEqual([its["dead"]]);
  expect(await all(fresh, { tag: "blue" })).toEqual([its["dead"]]);
  expect(await all(fresh, { error: "NOT A function" })).toEqual([its["dead"]]);
  expect(await all(fresh, { error: "not wanted" })).toEqual([its["cancelled"]]);
  // No pattern language: what is typed is what is looked for.
  expect(await all(fresh, { error: "100% full_disk" })).toEqual([its["retrying"]]);
  expect(await all(fresh, { error: "100%disk" })).toEqual([]);
});

test("a row has the last error, and neither payload nor result", async () => {
  const fresh = await freshSchema();
  const { dead = "" } = await oneOfEach(fresh);

  const [row] = (await jobsOf(fresh).jobs({ state: "dead" })).jobs;

  expect(row).toMatchObject({
    id: dead,
    state: "dead",
    reason: "attempts exhausted",
    tags: ["red", "blue"],
    attempts: 1,
    finishedAt: expect.any(Date),
    error: { name: "TypeError", message: "x is not a Function" },
  });
  expect(row).not.toHaveProperty("payload");
  expect(row).not.toHaveProperty("result");
});

test("times are those of the ids; since is inclusive and until exclusive", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    [0, 1, 2, 3].map((n) => ({ id: idOf(n) })),
  );
  const at = (n: number): Date => new Date(Date.UTC(2026, 0, 1) + n * 1_000);

  expect(await all(fresh, { since: at(1), until: at(3) })).toEqual([idOf(2), idOf(1)]);
  expect(await all(fresh, { since: at(3) })).toEqual([idOf(3)]);
  expect(await all(fresh, { until: at(1), state: "ready", queue: "main" })).toEqual([idOf(0)]);
});

test("counting agrees with listing", async () => {
  const fresh = await freshSchema();
  await oneOfEach(fresh);
  const jobs = jobsOf(fresh);

  expect(await jobs.count({})).toEqual({ count: 8, capped: false });
  expect(await jobs.count({ state: "parked" })).toEqual({ count: 1, capped: false });
  expect(await jobs.count({ key: "k1" })).toEqual({ count: 2, capped: false });
  expect(await jobs.count({ error: "nothing like it" })).toEqual({ count: 0, capped: false });
});

test("a star in a kind matches any characters", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [
    { id: idOf(1), kind: "read_page" },
    { id: idOf(2), kind: "read-map" },
    { id: idOf(3), kind: "readXpage" },
    { id: idOf(4), kind: "send-receipt" },
    { id: idOf(5), kind: "read_page", queue: "b" },
  ]);
  const jobs = jobsOf(fresh);

  expect(ids(await jobs.jobs({ kind: "read*" }))).toEqual([5, 3, 2, 1].map((n) => idOf(n)));
  // Nothing else in it is a pattern.
  expect(ids(await jobs.jobs({ kind: "read_*" }))).toEqual([idOf(5), idOf(1)]);
  expect(ids(await jobs.jobs({ kind: "read*", queue: "b", state: "ready" }))).toEqual([idOf(5)]);
  expect(ids(await jobs.jobs({ kind: "*-*" }))).toEqual([idOf(4), idOf(2)]);
  expect(ids(await jobs.jobs({ kind: "*" }))).toHaveLength(5);
  expect(ids(await jobs.jobs({ kind: "zz*" }))).toEqual([]);
  // By the tallies and by a search.
  expect(await jobs.count({ kind: "read*" })).toEqual({ count: 4, capped: false });
  expect(await jobs.count({ kind: "read*", state: "ready" })).toEqual({ count: 4, capped: false });
  expect(await jobs.count({ kind: "read*", state: "running" })).toEqual({ count: 0, capped: false });
  await expect(jobs.jobs({ kind: "read%" })).rejects.toThrow("jobs.kind: must be");
  await expect(jobs.jobs({ kind: "-*" })).rejects.toThrow("jobs.kind: must be");
});

test("a star in a queue matches any characters", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [
    { id: idOf(1), queue: "tenant-7" },
    { id: idOf(2), queue: "tenant_7" },
    { id: idOf(3), queue: "tenant-8" },
    { id: idOf(4), queue: "mail" },
    { id: idOf(5), queue: "tenant-7", kind: "other" },
  ]);
  const jobs = jobsOf(fresh);

  expect(ids(await jobs.jobs({ queue: "tenant-*" }))).toEqual([5, 3, 1].map((n) => idOf(n)));
  // By the index of ready jobs, which knows names only, and without it.
  expect(ids(await jobs.jobs({ queue: "tenant-*", state: "ready" }))).toEqual([5, 3, 1].map((n) => idOf(n)));
  expect(ids(await jobs.jobs({ queue: "tenant_7", state: "ready" }))).toEqual([idOf(2)]);
  expect(ids(await jobs.jobs({ queue: "tenant_7" }))).toEqual([idOf(2)]);
  expect(ids(await jobs.jobs({ queue: "*-7", kind: "oth*" }))).toEqual([idOf(5)]);
  expect(await jobs.count({ queue: "tenant-*" })).toEqual({ count: 3, capped: false });
  expect(await jobs.count({ queue: "tenant-*", state: "ready" })).toEqual({ count: 3, capped: false });
  expect(await jobs.deadGroups({ queue: "tenant-*" })).toMatchObject({ groups: [] });
  await expect(jobs.jobs({ queue: "tenant%" })).rejects.toThrow("jobs.queue: must be");
});

test("an impossible filter is refused with a valid one", async () => {
  const fresh = await freshSchema();
  const jobs = jobsOf(fresh);

  await expect(jobs.jobs({ state: "redy" as "ready" })).rejects.toThrow('did you mean "ready"');
  await expect(jobs.jobs({ quue: "a" } as JobFilter)).rejects.toThrow('did you mean "queue"');
  await expect(jobs.jobs({ after: "xyz" })).rejects.toThrow("jobs.after: must be the next of a page");
  await expect(jobs.jobs({ limit: 5_000 })).rejects.toThrow("from 1 to 1000");
  await expect(jobs.count({ since: new Date("nonsense") })).rejects.toThrow("must be a valid Date");
});

test("a search stops at its budget, reports it, and continues where it stopped", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 100 }, (_, n) => ({ id: idOf(n), kind: n % 50 === 0 ? "rare" : "work" })),
  );
  const search = toSearch("jobs", { kind: "rare" });
  const budget = { rows: 30, ms: 60_000 };

  const pages: JobPage[] = [];
  for (let before: string | null = search.before; before !== null; before = pages.at(-1)?.next ?? null) {
    pages.push(await findPage(fresh.db, { ...search, before }, 10, budget));
  }

  expect(pages.map((page) => page.partial)).toEqual([true, true, true, false]);
  expect(pages.map((page) => page.next)).toEqual([idOf(70), idOf(40), idOf(10), null]);
  expect(pages.flatMap(ids)).toEqual([idOf(50), idOf(0)]);
  expect(await countUpTo(fresh.db, search, budget)).toEqual({ count: 0, capped: true, next: idOf(70) });
  expect(await countUpTo(fresh.db, search)).toEqual({ count: 2, capped: false });
});

test("a full page is not partial, and pages neither repeat nor skip jobs", async () => {
  const fresh = await freshSchema();
  await add(
    fresh.db,
    Array.from({ length: 25 }, () => ({ id: newId() })),
  );
  await take(fresh.db, { limit: 5 });

  const first = await jobsOf(fresh).jobs({ limit: 10 });

  expect(first).toMatchObject({ partial: false, next: first.jobs[9]?.id });
  const found = await all(fresh, {}, 10);
  expect(found).toHaveLength(25);
  expect(new Set(found).size).toBe(25);
});
