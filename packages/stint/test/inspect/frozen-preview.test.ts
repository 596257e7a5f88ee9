/** A bulk operation touches what its preview showed, and reports what had changed since. */
import { expect, test } from "vitest";
import type { BulkAction, JobFilter, Operation } from "#stint/inspect.js";
import { InvalidOptionError } from "#stint/errors.js";
import { replay } from "#stint/sql/operate.js";
import { finish } from "#stint/sql/finish.js";
import { requeue } from "#stint/sql/requeue.js";
import type { ClaimedJob } from "#stint/model/job.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { add, addOne, auditInfo, stored, take } from "../sql/jobs.ts";
import { operationsOf } from "./inspectors.ts";

const why = { reason: "drill", actor: "ann" };

async function die(fresh: Fresh, jobs: readonly ClaimedJob[]): Promise<void> {
  const ending = { outcome: "failed" } as const;
  await finish(
    fresh.db,
    jobs.map(({ fence }) => ({ fence, state: "dead", result: null, reason: "boom", ending })),
  );
}

async function fail(fresh: Fresh, jobs: readonly ClaimedJob[]): Promise<void> {
  await requeue(
    fresh.db,
    jobs.map(({ fence }) => ({
      fence,
      state: "retrying",
      delayMs: 3_600_000,
      countsAs: "attempt",
      ending: { outcome: "failed" },
    })),
  );
}

/** Look, let something happen, then begin with what was looked at. */
async function lookThenAct(
  fresh: Fresh,
  action: BulkAction,
  filter: JobFilter,
  meanwhile: () => Promise<void>,
): Promise<Operation> {
  const operations = operationsOf(fresh);
  const { matched, asOf } = await operations.preview(action, filter);
  await meanwhile();
  const { id } = await operations.begin(action, filter, { ...why, preview: { matched, asOf } });
  const ended = await until(async () => {
    const found = await operations.operation(id);
    return found?.state === "running" ? undefined : found;
  });
  return ended as Operation;
}

test("a preview counts jobs by the tallies, also beyond 10,000", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.history (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes,
       interruptions, epoch, run, reason, payload)
     select gen_random_uuid(), 'work', 'a', 'dead', 0, now(), now(), now(), 1, 0, 0, 1, 1, 'no', '{}'
     from generate_series(1, 10500)`,
  );
  await fresh.sql(`select stint.recount()`);
  const { matched } = await operationsOf(fresh).preview("replay", { state: "dead", kind: "work" });
  expect(matched).toEqual({ count: 10_500, capped: false });
});

test("a job that died after the preview is not replayed with it", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{}, {}, {}]);
  await die(fresh, await take(fresh.db));
  const later = await addOne(fresh.db);

  const operation = await lookThenAct(fresh, "replay", { state: "dead" }, async () => {
    await die(fresh, await take(fresh.db));
  });

  expect(operation).toMatchObject({ matched: { count: 3 }, done: 3, changed: 0 });
  expect(await stored(fresh, later)).toMatchObject({ state: "dead" });
});

test("jobs that left the previewed set are reported as changed", async () => {
  const fresh = await freshSchema();
  const ids = (await add(fresh.db, [{}, {}, {}])).map(({ id }) => id);
  await die(fresh, await take(fresh.db));

  const operation = await lookThenAct(fresh, "replay", { state: "dead" }, async () => {
    await replay(fresh.db, ids[0] ?? "", auditInfo());
  });

  expect(operation).toMatchObject({ matched: { count: 3 }, done: 2, changed: 1 });
});

test("a job that failed after the preview is not run with the previewed ones", async () => {
  const fresh = await freshSchema();
  const [failed] = await add(fresh.db, [{}]);
  await fail(fresh, await take(fresh.db));
  const later = await addOne(fresh.db);

  const operation = await lookThenAct(fresh, "run-now", { state: "retrying" }, async () => {
    await fail(fresh, await take(fresh.db));
  });

  expect(operation).toMatchObject({ matched: { count: 1 }, done: 1, changed: 0 });
  expect(await stored(fresh, failed?.id ?? "")).toMatchObject({ state: "ready" });
  expect(await stored(fresh, later)).toMatchObject({ state: "retrying" });
});

test("a job that started after the preview is not cancelled as a running one", async () => {
  const fresh = await freshSchema();
  const first = await addOne(fresh.db);
  await take(fresh.db, { limit: 1 });
  const second = await addOne(fresh.db);

  const operation = await lookThenAct(fresh, "cancel", { state: "running" }, async () => {
    await take(fresh.db, { limit: 1 });
  });

  expect(operation).toMatchObject({ matched: { count: 1 }, done: 1, changed: 0 });
  expect(await stored(fresh, first)).toMatchObject({ cancel_requested: true });
  expect(await stored(fresh, second)).toMatchObject({ cancel_requested: false });
});

test("a job that moved within the previewed states is still acted on", async () => {
  const fresh = await freshSchema();
  const ids = (await add(fresh.db, [{}, {}, {}])).map(({ id }) => id);
  const dead = await addOne(fresh.db);
  await die(
    fresh,
    (await take(fresh.db, { limit: 4 })).filter(({ fence }) => fence.job === dead),
  );

  const operation = await lookThenAct(fresh, "cancel", {}, async () => {
    await replay(fresh.db, dead, auditInfo());
  });

  // The dead one was not live at the preview; that it is now does not make it one of them.
  expect(operation).toMatchObject({ matched: { count: 3 }, done: 3, changed: 0 });
  expect(await stored(fresh, dead)).toMatchObject({ state: "ready" });
  for (const id of ids) expect(await stored(fresh, id)).toMatchObject({ cancel_requested: true });
});

test("ready jobs claimed meanwhile are cancelled with ready and running ones", async () => {
  const fresh = await freshSchema();
  await add(fresh.db, [{}, {}]);
  const operation = await lookThenAct(fresh, "cancel", { state: ["ready", "running"] }, async () => {
    await take(fresh.db, { limit: 1 });
  });
  expect(operation).toMatchObject({ done: 2, changed: 0 });
});

test("a preview refuses a future or invalid time", async () => {
  const fresh = await freshSchema();
  const operations = operationsOf(fresh);
  const matched = { count: 1, capped: false };
  await expect(
    operations.begin("cancel", { state: "ready" }, { ...why, preview: { matched, asOf: "yesterday" } }),
  ).rejects.toThrow(InvalidOptionError);

  const { id } = await operations.begin(
    "cancel",
    { state: "ready" },
    { ...why, preview: { matched, asOf: "2999-01-01T00:00:00Z" } },
  );
  const later = await addOne(fresh.db);
  await until(async () => (await operations.operation(id))?.state === "finished");
  expect(await stored(fresh, later)).toMatchObject({ state: "ready" });
});
