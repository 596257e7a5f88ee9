/** A search that ran out of its budget never looks like one that found everything. */
import { expect, test } from "vitest";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { idOf } from "./filled.ts";
import { jobsOf } from "./inspectors.ts";

/** Two windows of one row, whatever the machine does meanwhile. */
const tiny = { rows: 2, ms: 600_000 };
/** None but the first window, which looks at ten seconds only. */
const none = { rows: 200_000, ms: -1 };

async function enqueue(fresh: Fresh, jobs: number, state = "ready"): Promise<void> {
  const values = Array.from({ length: jobs }, (_, n) => [idOf(n), n === 0 ? "{first}" : "{}"]);
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload, tags)
     select id, 'work', 'a', '${state}', now(), now(), '{}', tags
     from unnest($1::uuid[], $2::text[]) as j (id, tags_text), lateral (select tags_text::text[] as tags) t`,
    [values.map(([id]) => id), values.map(([, tags]) => tags)],
  );
  await fresh.sql(`select stint.recount()`);
}

test("a partial page reports how much was searched, and of about how much", async () => {
  const fresh = await freshSchema();
  await enqueue(fresh, 20);
  const jobs = jobsOf(fresh, {}, tiny);
  const page = await jobs.jobs({ tag: "first" });
  expect(page).toMatchObject({ jobs: [], partial: true, progress: { searched: 2, of: 20 } });
  expect(page.next).not.toBeNull();
});

test("a search continued by its cursor finds old jobs, and then ends", async () => {
  const fresh = await freshSchema();
  await enqueue(fresh, 20);
  const jobs = jobsOf(fresh, {}, tiny);
  const found: string[] = [];
  let pages = 0;
  for (let after: string | null | undefined; after !== null; pages++) {
    const page = await jobs.jobs({ tag: "first", ...(after === undefined ? {} : { after }) });
    found.push(...page.jobs.map(({ id }) => id));
    after = page.next;
  }
  expect(found).toEqual([idOf(0)]);
  expect(pages).toBeGreaterThan(5);
});

test("a search too slow to read any job is not an empty page", async () => {
  const fresh = await freshSchema();
  await enqueue(fresh, 3);
  expect(await jobsOf(fresh, {}, none).jobs({})).toMatchObject({ jobs: [], partial: true });
});

test("the tallies end a search for states, kinds and queues without jobs", async () => {
  const fresh = await freshSchema();
  await enqueue(fresh, 3);
  const jobs = jobsOf(fresh, {}, none);
  const over = { jobs: [], next: null, partial: false };
  expect(await jobs.jobs({ state: "dead", error: "x" })).toEqual(over);
  expect(await jobs.jobs({ state: ["ready", "dead"], kind: "other", tag: "x" })).toEqual(over);
  expect(await jobs.jobs({ state: ["ready", "dead"], queue: "other" })).toEqual(over);
  expect(await jobs.jobs({ state: ["ready", "dead"], tag: "first" })).toMatchObject({ partial: true });
});

test("states, kinds and queues are counted by the tallies, for any number of jobs", async () => {
  const fresh = await freshSchema();
  await enqueue(fresh, 10_050);
  const jobs = jobsOf(fresh, {}, none);
  expect(await jobs.count({ state: "ready" })).toEqual({ count: 10_050, capped: false });
  expect(await jobs.count({ state: ["ready", "dead"], kind: "work" })).toEqual({
    count: 10_050,
    capped: false,
  });
  expect(await jobs.count({ state: "ready", queue: "b" })).toEqual({ count: 0, capped: false });
  // Those that are done have no tally.
  expect(await jobs.count({})).toMatchObject({ count: 10_050, capped: true });
});

test("a count that was capped continues at its cursor and adds up", async () => {
  const fresh = await freshSchema();
  await enqueue(fresh, 21);
  const jobs = jobsOf(fresh, {}, { rows: 4, ms: 600_000 });
  const since = new Date(Date.UTC(2026, 0, 1));
  let sum = 0;
  let asked = 0;
  for (let after: string | null | undefined; after !== null; asked++) {
    const { count, capped, next } = await jobs.count({
      since,
      state: "scheduled",
      ...(after === undefined ? {} : { after }),
    });
    sum += count;
    after = capped ? (next ?? null) : null;
  }
  expect(sum).toBe(0);
  sum = 0;
  asked = 0;
  for (let after: string | null | undefined; after !== null; asked++) {
    const options = { since, ...(after === undefined ? {} : { after }) };
    const { count, capped, next } = await jobs.count(options);
    sum += count;
    after = capped ? (next ?? null) : null;
  }
  expect([sum, asked > 3]).toEqual([21, true]);
});
