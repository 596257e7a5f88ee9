import { expect, test } from "vitest";
import { forSchema } from "#stint/db/statement.js";
import { finish } from "#stint/sql/finish.js";
import { liftMissedLatest } from "#stint/sql/latest.js";
import { planNextRun } from "#stint/sql/next-run.js";
import { succeed } from "#stint/sql/succeed.js";
import { cancel } from "#stint/sql/operate.js";
import { requeue } from "#stint/sql/requeue.js";
import { rescue } from "#stint/sql/rescue.js";
import type { Fence } from "#stint/model/job.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { add, addOne, auditInfo, expire, take } from "./jobs.ts";
import { session, sessions } from "./sessions.ts";

const keyed = { dedupe_key: "k", dedupe_until: "finished" } as const;
const latest = { ...keyed, replace: "both" } as const;

const stateOf = async (fresh: Fresh, id: string): Promise<string | undefined> =>
  (await fresh.sql<{ state: string }>(`select state from stint.jobs where id = $1`, [id]))[0]?.state;

/** A running job, and the job that waits behind it. */
async function pair(fresh: Fresh, first = {}): Promise<{ fence: Fence; id: string; next: string }> {
  const id = await addOne(fresh.db, { ...keyed, ...first });
  const [job] = await take(fresh.db);
  const [next] = await add(fresh.db, [latest]);
  expect(next).toMatchObject({ status: "deferred" });
  return { fence: job!.fence, id, next: next!.id };
}

test.each<[string, (fresh: Fresh, job: { fence: Fence; id: string }) => Promise<unknown>]>([
  ["succeeds", ({ db }, { fence }) => succeed(db, [fence])],
  [
    "dies",
    ({ db }, { fence }) =>
      finish(db, [{ fence, state: "dead", result: null, reason: null, ending: { outcome: "failed" } }]),
  ],
  [
    "is cancelled while it retries",
    async ({ db }, { fence, id }) => {
      const ending = { outcome: "failed" } as const;
      await requeue(db, [{ fence, state: "retrying", delayMs: 3_600_000, countsAs: "attempt", ending }]);
      await cancel(db, id, auditInfo());
    },
  ],
  [
    "is rescued after its only crash",
    async (fresh, { id }) => {
      await fresh.sql(`update stint.job set max_crashes = 1 where id = $1`, [id]);
      await expire(fresh, id);
      await rescue(fresh.db, { limit: 10, maxCrashes: 3 });
    },
  ],
])("the job behind one that %s becomes ready in the same statement", async (_, end) => {
  const fresh = await freshSchema();
  const { fence, id, next } = await pair(fresh);
  expect(await stateOf(fresh, next)).toBe("parked");
  await end(fresh, { fence, id });

  expect(await stateOf(fresh, next)).toBe("ready");
  expect(await fresh.sql(`select key from stint.latest`)).toEqual([]);
  expect(await add(fresh.db, [keyed])).toMatchObject([{ id: next, status: "existing" }]);
});

test("the job behind one that is requeued keeps waiting", async () => {
  const fresh = await freshSchema();
  const { fence, next } = await pair(fresh);
  const ending = { outcome: "failed" } as const;
  await requeue(fresh.db, [{ fence, state: "retrying", delayMs: 3_600_000, countsAs: "attempt", ending }]);
  expect(await stateOf(fresh, next)).toBe("parked");
  // The newest replaces the one behind, not the older one that retries.
  expect(await add(fresh.db, [{ ...latest, payload: 3 }])).toMatchObject([{ id: next, status: "replaced" }]);
});

test("a new payload forgets the steps and the checkpoint of the old one", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, keyed);
  const [job] = await take(fresh.db);
  await fresh.sql(
    `insert into stint.step (job_id, seq, name, type, epoch) values ($1, 1, 'charge', 'step', 1)`,
    [id],
  );
  await fresh.sql(`insert into stint.progress (job_id, checkpoint, at) values ($1, '7', now())`, [id]);
  const ending = { outcome: "failed" } as const;
  const back = {
    fence: job!.fence,
    state: "retrying",
    delayMs: 3_600_000,
    countsAs: "attempt",
    ending,
  } as const;
  await requeue(fresh.db, [back]);
  const time = { ...keyed, replace: "run_at", delay_ms: 1 } as const;
  await add(fresh.db, [time]);
  expect(await fresh.sql(`select name from stint.step`)).toHaveLength(1);

  await add(fresh.db, [latest]);
  expect(await fresh.sql(`select name from stint.step`)).toEqual([]);
  expect(await fresh.sql(`select checkpoint from stint.progress`)).toEqual([{ checkpoint: null }]);
});

test("a settle that misses a job behind it leaves it to the commit of that job", async () => {
  const fresh = await freshSchema();
  const id = await addOne(fresh.db, keyed);
  const [job] = await take(fresh.db);
  const other = await session(fresh);
  await other.begin();
  const [next] = await add(other, [latest]);
  await succeed(fresh.db, [job!.fence]);
  expect(await stateOf(fresh, id)).toBe("succeeded");
  await other.commit();

  expect(await stateOf(fresh, next!.id)).toBe("ready");
});

test("a key taken between an end and a commit puts the late job behind its new holder", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, keyed);
  const [job] = await take(fresh.db);
  const other = await session(fresh);
  await other.begin();
  const [late] = await add(other, [latest]);
  await succeed(fresh.db, [job!.fence]);
  const [between] = await add(fresh.db, [latest]);
  expect(between!.status).toBe("created");
  await other.commit();

  expect(await stateOf(fresh, late!.id)).toBe("parked");
  const [second] = await take(fresh.db);
  expect(second!.fence.job).toBe(between!.id);
  await succeed(fresh.db, [second!.fence]);
  expect(await stateOf(fresh, late!.id)).toBe("ready");
});

test("many sessions that replace one key make one job with one of their payloads", async () => {
  const fresh = await freshSchema();
  const all = await sessions(fresh, 8);
  const results = await Promise.all(
    all.map(async (db, n) => {
      const own = [];
      for (let i = 0; i < 10; i++) own.push((await add(db, [{ ...latest, payload: n * 100 + i }]))[0]!);
      return own;
    }),
  );

  const ids = new Set(results.flat().map(({ id }) => id));
  expect(ids.size).toBe(1);
  expect(results.flat().filter(({ status }) => status === "created")).toHaveLength(1);
  const jobs = await fresh.sql<{ n: number }>(`select (payload #>> '{}')::int as n from stint.job`);
  expect(jobs).toHaveLength(1);
  // The last of some session: each session's own order holds.
  expect(jobs[0]!.n % 100).toBe(9);
});

test("batches that replace the same keys in opposite order do not deadlock", async () => {
  const fresh = await freshSchema();
  const keys = Array.from({ length: 40 }, (_, n) => ({ ...latest, dedupe_key: `k${n}` }));
  await add(fresh.db, keys);
  const all = await sessions(fresh, 4);
  await Promise.all(
    all.map(async (db, n) => {
      for (let i = 0; i < 10; i++) await add(db, n % 2 === 0 ? keys : keys.toReversed());
    }),
  );
  expect(await fresh.sql(`select count(*)::int as n from stint.job`)).toEqual([{ n: 40 }]);
});

test("enqueue_one and enqueue_many report what they did", async () => {
  const fresh = await freshSchema();
  const one = async (options: object): Promise<unknown> =>
    await fresh.sql(`select status from stint.enqueue_one('work', '1', $1::text::jsonb)`, [
      JSON.stringify({ queue: "main", ...options }),
    ]);
  const dedupe = { key: "k", replace: true };
  expect(await one({ dedupe })).toEqual([{ status: "created" }]);
  expect(await one({ dedupe })).toEqual([{ status: "replaced" }]);
  expect(await one({ dedupe: { key: "k" } })).toEqual([{ status: "existing" }]);
  expect(await one({ debounce: { key: "k", wait: "1h" } })).toEqual([{ status: "deferred" }]);
  expect(await one({ throttle: { key: "t", every: "1h" } })).toEqual([{ status: "created" }]);
  expect(await one({ throttle: { key: "t", every: "1h" } })).toEqual([{ status: "existing" }]);
  const jobs = [
    { kind: "work", payload: 2, options: { queue: "main", dedupe } },
    { kind: "work", options: { queue: "main" } },
  ];
  expect(
    await fresh.sql(`select ordinal, created, status from stint.enqueue_many($1::text::jsonb)`, [
      JSON.stringify(jobs),
    ]),
  ).toEqual([
    { ordinal: 1, created: false, status: "replaced" },
    { ordinal: 2, created: true, status: "created" },
  ]);
});

test.each([
  [{ dedupe: { key: "k", until: "1h", replace: true } }, "replace needs until"],
  [{ dedupe: { key: "k", replace: "x" } }, "replace must be"],
  [{ dedupe: { key: "k", replace: 1 } }, "replace must be"],
  [{ dedupe: { key: "k", replace: "runAt" } }, "needs the new time"],
  [{ dedupe: { key: "k" }, throttle: { key: "k", every: 1 } }, "give one of"],
  [{ debounce: { key: "k" } }, "debounce needs wait"],
  [{ debounce: { wait: "1s" } }, "debounce needs a key"],
  [{ debounce: { key: "k", wait: "2s", maxWait: "1s" } }, "must not be shorter"],
  [{ debounce: { key: "k", wait: "1s", nope: 1 } }, "debounce must be"],
  [{ debounce: { key: "k", wait: "1s" }, delay: "1s" }, "sets the run time itself"],
  [{ debounce: [] }, "debounce must be"],
  [{ throttle: { key: "k" } }, "throttle needs every"],
  [{ throttle: { key: "k", every: 0 } }, "every"],
  [{ throttle: { key: 5, every: 1 } }, "key must be"],
])("SQL refuses %j and writes nothing", async (options, text) => {
  const fresh = await freshSchema();
  const sent = fresh.sql(`select stint.enqueue('work', '1', $1::text::jsonb)`, [
    JSON.stringify({ queue: "main", ...options }),
  ]);
  await expect(sent).rejects.toThrow(text);
  await expect(sent).rejects.toMatchObject({ code: "22023" });
  expect(await fresh.sql(`select id from stint.job`)).toEqual([]);
});

const withKey = <T extends object>(row: T, key: string): T & { dedupe_key: string } => ({
  ...row,
  dedupe_key: key,
});

test("a commit that defers several keys cannot deadlock with a settle of their holders", async () => {
  const fresh = await freshSchema();
  const keys = ["a", "b", "c"];
  await add(
    fresh.db,
    keys.map((key) => withKey(keyed, key)),
  );
  const holders = (await take(fresh.db)).toSorted((a, b) => (a.fence.job < b.fence.job ? -1 : 1));
  const [caller, settle] = await sessions(fresh, 2);
  await caller!.begin();
  const behind = await add(
    caller!,
    keys.map((key) => withKey(latest, key)),
  );
  // The settle has locked the last holder, and takes the others next.
  await settle!.begin();
  await settle!.client.query(forSchema(`select from stint.job where id = $1 for update`, fresh.schema), [
    holders.at(-1)!.fence.job,
  ]);
  const committed = caller!.commit();
  await Promise.race([committed, caller!.blocked()]);
  await succeed(
    settle!,
    holders.map(({ fence }) => fence),
  );
  await settle!.commit();
  await committed;

  await until(async () => (await liftMissedLatest(fresh.db)) === 0);
  const states = await Promise.all(behind.map(({ id }) => stateOf(fresh, id)));
  expect(states).toEqual(["ready", "ready", "ready"]);
  expect(await fresh.sql(`select key from stint.latest`)).toEqual([]);
});

test("a commit waits for no locked holder, and upkeep puts its job behind it", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, keyed);
  const [holder] = await take(fresh.db);
  const [caller, other] = await sessions(fresh, 2);
  await other!.begin();
  await other!.client.query(forSchema(`select from stint.job for update`, fresh.schema));
  const [next] = await add(caller!, [latest]);
  expect(next!.status).toBe("deferred");
  expect(await liftMissedLatest(fresh.db)).toBe(1);
  await other!.commit();

  // Upkeep finds the holder alive and leaves the job behind it.
  expect(await liftMissedLatest(fresh.db)).toBe(0);
  expect(await stateOf(fresh, next!.id)).toBe("parked");
  await succeed(fresh.db, [holder!.fence]);
  expect(await stateOf(fresh, next!.id)).toBe("ready");
});

test("a run that was planned with an older payload takes the newer one", async () => {
  const fresh = await freshSchema();
  await addOne(fresh.db, { ...keyed, payload: 1 });
  const [first] = await take(fresh.db);
  await planNextRun(fresh.db, first!.fence, { delayMs: 1, at: null, payload: null, limits: null });
  const ending = { outcome: "failed" } as const;
  const { fence } = first!;
  await requeue(fresh.db, [{ fence, state: "retrying", delayMs: 3_600_000, countsAs: "attempt", ending }]);
  await add(fresh.db, [{ ...latest, payload: 2 }]);
  await dieLater(fresh, fence.job);
  const [next] = await fresh.sql<{ payload: number }>(`select payload from stint.job`);
  expect(next).toEqual({ payload: 2 });
});

/** The job dies without planning another run: the one that was planned before is made. */
async function dieLater(fresh: Fresh, id: string): Promise<void> {
  await fresh.sql(`update stint.job set state = 'ready', run_at = now() where id = $1`, [id]);
  const [job] = await take(fresh.db);
  const ending = { outcome: "failed" } as const;
  await finish(fresh.db, [{ fence: job!.fence, state: "dead", result: null, reason: null, ending }]);
}

test.each(["true", '"payload"'])(
  "replace %s reports created if the holder of the key ends meanwhile",
  async (replace) => {
    const fresh = await freshSchema();
    const [settle, caller] = await sessions(fresh, 2);
    const options = `{"queue": "default", "dedupe": {"key": "k", "replace": ${replace}}}`;
    const enqueue = `select id, status from stint.enqueue_one('a', '1', '${options}')`;
    const [first] = await fresh.sql<{ id: string }>(enqueue);
    await settle!.begin();
    await settle!.client.query(forSchema("select from stint.job for update", fresh.schema));
    const second = caller!.client.query(forSchema(enqueue, fresh.schema));
    await caller!.blocked();
    await settle!.client.query(forSchema("delete from stint.job", fresh.schema));
    await settle!.commit();

    const [row] = (await second).rows as { id: string; status: string }[];
    expect(row?.status).toBe("created");
    expect(row?.id).not.toBe(first?.id);
  },
);
