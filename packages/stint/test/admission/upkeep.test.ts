/** Upkeep of admission: rows of ended jobs go, and a full queue notes since when it is full. */
import { expect, test } from "vitest";
import { defineJob, handle, QueueFullError, typed } from "#stint/index.js";
import { controlsRule } from "#stint/doctor/checks/controls.js";
import { tendAdmission, type AdmittedPlace } from "#stint/sql/admission.js";
import { controlFacts } from "#stint/sql/doctor/controls.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>() });
const other = defineJob("other", { payload: typed<object>() });

const admitted = async (fresh: Fresh): Promise<string[]> =>
  (await fresh.sql<{ tenant: string }>(`select tenant from stint.admitted order by tenant`)).map(
    ({ tenant }) => tenant,
  );
const since = async (fresh: Fresh): Promise<Date | null> =>
  (await fresh.sql<{ at: Date | null }>(`select max(full_since) as at from stint.admission_sample`))[0]!.at;
/** As if the last sample were older than a second. */
const age = async (fresh: Fresh): Promise<unknown> =>
  await fresh.sql(`update stint.admission_sample set sampled_at = sampled_at - interval '2 seconds'`);

test("rows of ended jobs are deleted in batches, and those of live jobs stay", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [work] });
  await stint.queueSettings.set("default", { admission: { tenant: { maxDepth: 10 } } }, { reason: "test" });
  const ids: string[] = [];
  for (const tenant of ["a", "b", "c", "d", "e"]) ids.push((await stint.enqueue(work, {}, { tenant })).id);
  for (const id of [ids[0]!, ids[2]!, ids[4]!]) await stint.cancel(id);
  expect(await admitted(fresh)).toEqual(["a", "b", "c", "d", "e"]);

  const seen: (AdmittedPlace | null)[] = [];
  let after: AdmittedPlace | null = null;
  do {
    after = await tendAdmission(fresh.db, after, 2);
    seen.push(after);
  } while (after !== null);
  expect(seen.map((place) => place?.[1] ?? null)).toEqual(["b", "d", null]);
  expect(await admitted(fresh)).toEqual(["b", "d"]);
});

test("a worker deletes the rows of tenants that never come back", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [work] });
  await stint.queueSettings.set("default", { admission: { tenant: { maxDepth: 10 } } }, { reason: "test" });
  const { id } = await stint.enqueue(work, {}, { tenant: "once" });
  await stint.cancel(id);
  expect(await admitted(fresh)).toEqual(["once"]);
  await startWorker(stint, { handlers: [handle(work, () => undefined)], pools: { default: 1 } });
  await until(async () => (await admitted(fresh)).length === 0, { message: "the row is deleted" });
});

test("of several workers, one takes the samples at a time", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [work] });
  await stint.queueSettings.set("default", { admission: { maxDepth: 1 } }, { reason: "test" });
  await stint.enqueue(work, {});
  const sampled = async (): Promise<Date> =>
    (await fresh.sql<{ at: Date }>("select sampled_at as at from stint.admission_sample"))[0]!.at;
  await age(fresh);
  const before = await sampled();
  await Promise.all(Array.from({ length: 5 }, () => tendAdmission(fresh.db, null, 10, 3_600_000)));
  const after = await sampled();
  expect(after).not.toEqual(before);
  await age(fresh);
  const aged = await sampled();
  // Another place is kept by a worker whose turn it is not.
  expect(
    await tendAdmission(fresh.db, ["q", "t", "018f0000-0000-7000-8000-000000000001"], 10, 3_600_000),
  ).toEqual(["q", "t", "018f0000-0000-7000-8000-000000000001"]);
  expect(await sampled()).toEqual(aged);
});

test("a queue that refuses every enqueue notes since when, and the doctor reports it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [work] });
  await stint.queueSettings.set("default", { admission: { maxDepth: 1 } }, { reason: "test" });
  const { id } = await stint.enqueue(work, {});
  await age(fresh);
  await expect(stint.enqueue(work, {})).rejects.toThrow(QueueFullError);
  // The refused enqueue was rolled back with its sample.
  expect(await since(fresh)).toBeNull();
  await tendAdmission(fresh.db, null, 10);
  const first = await since(fresh);
  expect(first).not.toBeNull();
  await age(fresh);
  await tendAdmission(fresh.db, null, 10);
  expect(await since(fresh)).toEqual(first);

  const findings = async () => controlsRule(await controlFacts(fresh.db), "stint").findings;
  expect(await findings()).toEqual([]);
  await fresh.sql(`update stint.admission_sample set full_since = full_since - interval '11 minutes'`);
  expect(await findings()).toMatchObject([
    { level: "warning", title: "A queue refuses enqueues for more than ten minutes" },
  ]);

  await stint.cancel(id);
  await age(fresh);
  await tendAdmission(fresh.db, null, 10);
  expect(await since(fresh)).toBeNull();
  expect(await findings()).toEqual([]);
});

test("the doctor reports old pauses without an end, and reasons without a word", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [work, other] });
  await stint.pauses.pause({ queue: "default" }, { reason: "incident 12", actor: "ada" });
  await stint.pauses.pause({ kind: "work" }, { reason: "incident 13", for: "30d" });
  await stint.pauses.pause({ tenant: "acme" }, { reason: "…" });
  const findings = async () =>
    controlsRule(await controlFacts(fresh.db), "stint").findings.map(
      ({ level, title, what }) => `${level} ${title}: ${what}`,
    );
  expect(await findings()).toEqual([
    expect.stringMatching(/^note A pause has no reason that a person can read: tenant acme/),
  ]);
  await fresh.sql(`update stint.pause set paused_at = now() - interval '25 hours' where scope <> 'tenant'`);
  expect(await findings()).toEqual([
    expect.stringMatching(
      /^warning A pause without an end is older than a day: queue default, paused 1 d .* ago by ada: incident 12/,
    ),
    expect.stringMatching(/^note/),
  ]);
});
