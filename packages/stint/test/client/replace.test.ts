import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import {
  defineJob,
  handle,
  InvalidOptionError,
  typed,
  WrongStateError,
  type EnqueueOptions,
  type Stint,
} from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

const sync = defineJob("sync", { payload: typed<{ n: number }>() });
const replace = { dedupe: { key: "k", replace: true } } satisfies EnqueueOptions;

type Gate = ReturnType<typeof gate<void>>;
type Row = { id: string; state: string; n: number; reason: string | null; in_ms: number; attempts: number };

async function jobs(fresh: Fresh): Promise<Row[]> {
  return await fresh.sql<Row>(
    `select id, state, (payload ->> 'n')::int as n, park_reason as reason, attempts,
       round(extract(epoch from run_at - now()) * 1000)::float8 as in_ms
     from stint.job order by created_at, id`,
  );
}

/** The statuses that were counted, by name. */
async function counted(fresh: Fresh): Promise<Record<string, number>> {
  const rows = await fresh.sql<{ status: string; count: number }>(
    `select status, count::int as count from stint.enqueues order by status`,
  );
  return Object.fromEntries(rows.map(({ status, count }) => [status, count]));
}

/** The tallies equal what counting finds. */
async function expectTrueTallies(fresh: Fresh): Promise<void> {
  const columns =
    "queue, kind, live::int, scheduled::int, ready::int, running::int, retrying::int, parked::int";
  const counts = await fresh.sql(`select ${columns} from stint.counted order by queue, kind`);
  const tallies = await fresh.sql(`select ${columns} from stint.depth where live <> 0 order by queue, kind`);
  expect(tallies).toEqual(counts);
}

/** A worker whose handler notes its payload and waits for the gate of it, if there is one. */
async function worker(stint: Stint, gates: Record<number, Gate> = {}, slots = 4) {
  const ran: number[] = [];
  let running = 0;
  let most = 0;
  const own = stint.worker({
    pools: { default: slots },
    signals: false,
    poll: "100ms",
    handlers: [
      handle(sync, async ({ payload: { n } }) => {
        most = Math.max(most, ++running);
        ran.push(n);
        await gates[n]?.opened;
        running -= 1;
      }),
    ],
  });
  await own.start();
  return { ran, most: () => most, stop: () => own.stop() };
}

async function session(fresh: Fresh): Promise<Client> {
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

test("a waiting job gets the newest payload and keeps its id", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = await stint.enqueue(sync, { n: 1 }, { ...replace, delay: "1h" });
  const second = await stint.enqueue(sync, { n: 2 }, replace);

  expect(first).toMatchObject({ status: "created", created: true });
  expect(second).toEqual({ ...first, status: "replaced", created: false });
  expect(await jobs(fresh)).toMatchObject([{ id: first.id, state: "scheduled", n: 2 }]);
  await expectTrueTallies(fresh);
});

test.each([
  ["payload", { n: 2, state: "scheduled" }, "replaced"],
  ["runAt", { n: 1, state: "ready" }, "replaced"],
  [true, { n: 2, state: "ready" }, "replaced"],
] as const)("replace: %s replaces only what it names", async (what, expected, status) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.enqueue(sync, { n: 1 }, { ...replace, delay: "1h" });
  const dedupe = { key: "k", replace: what };
  const again = await stint.enqueue(sync, { n: 2 }, { dedupe, runAt: new Date(1_000) });

  expect(again.status).toBe(status);
  expect(await jobs(fresh)).toMatchObject([expected]);
  await expectTrueTallies(fresh);
});

test("a run time that moves later reports deferred", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.enqueue(sync, { n: 1 }, replace);
  const dedupe = { key: "k", replace: "runAt" as const };
  expect((await stint.enqueue(sync, { n: 2 }, { dedupe, delay: "1h" })).status).toBe("deferred");

  expect(await jobs(fresh)).toMatchObject([{ state: "scheduled", n: 1 }]);
  await expectTrueTallies(fresh);
});

test("while a job runs, the newest of many enqueues runs after it, and only it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = gate();
  const { ran, most } = await worker(stint, { 1: first });
  await stint.enqueue(sync, { n: 1 }, replace);
  await until(() => ran.length === 1);

  const second = await stint.enqueue(sync, { n: 2 }, replace);
  const third = await stint.enqueue(sync, { n: 3 }, replace);
  const fourth = await stint.enqueue(sync, { n: 4 }, replace);
  expect(second.status).toBe("deferred");
  expect(third).toMatchObject({ id: second.id, status: "replaced" });
  expect(fourth).toMatchObject({ id: second.id, status: "replaced" });
  expect((await stint.get(second.id))?.state).toBe("parked");
  await expectTrueTallies(fresh);
  first.open();

  await stint.waitFor(second, { timeout: "60s" });
  expect(ran).toEqual([1, 4]);
  expect(most()).toBe(1);
  expect(await counted(fresh)).toEqual({ deferred: 1, replaced: 2 });
  await expectTrueTallies(fresh);
});

test("a failed job keeps its backoff, and its new payload has all attempts", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const failing = stint.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [
      handle(
        sync,
        () => {
          throw new Error("no");
        },
        { backoff: { steps: ["1h"] } },
      ),
    ],
  });
  const first = await stint.enqueue(sync, { n: 1 }, replace);
  await failing.start();
  await until(async () => (await stint.get(first.id))?.state === "retrying");
  await failing.stop();

  const again = await stint.enqueue(sync, { n: 2 }, { ...replace, delay: "1s" });
  expect(again).toMatchObject({ id: first.id, status: "replaced" });
  const [job] = await jobs(fresh);
  expect(job).toMatchObject({ state: "retrying", n: 2, attempts: 0 });
  expect(job!.in_ms).toBeGreaterThan(60_000);
  await expectTrueTallies(fresh);
});

test("the job behind one that fails waits for its last attempt", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: number[] = [];
  const first = gate();
  const own = stint.worker({
    pools: { default: 2 },
    signals: false,
    poll: "100ms",
    handlers: [
      handle(
        sync,
        async ({ payload: { n } }) => {
          ran.push(n);
          await first.opened;
          if (n === 1) throw new Error("no");
        },
        { attempts: 2, backoff: { steps: [1] } },
      ),
    ],
  });
  await own.start();
  await stint.enqueue(sync, { n: 1 }, replace);
  await until(() => ran.length === 1);
  const next = await stint.enqueue(sync, { n: 2 }, replace);
  first.open();

  await stint.waitFor(next, { timeout: "60s" });
  expect(ran).toEqual([1, 1, 2]);
});

test("replace until started leaves the running job alone and adds one beside it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = gate();
  const options = { dedupe: { key: "k", until: "started", replace: true } } as const;
  const { ran } = await worker(stint, { 1: first });
  await stint.enqueue(sync, { n: 1 }, options);
  await until(() => ran.length === 1);
  expect((await stint.enqueue(sync, { n: 2 }, options)).status).toBe("created");
  await until(() => ran.length === 2);
  first.open();
});

test("debounce runs once, after the last enqueue and with its payload", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const debounce = { debounce: { key: "k", wait: "1h" } };
  const first = await stint.enqueue(sync, { n: 1 }, debounce);
  await fresh.sql(`update stint.job set run_at = run_at - interval '30 minutes'`);
  const second = await stint.enqueue(sync, { n: 2 }, debounce);

  expect(first.status).toBe("created");
  expect(second).toMatchObject({ id: first.id, status: "deferred" });
  const [job, ...others] = await jobs(fresh);
  expect(others).toEqual([]);
  expect(job).toMatchObject({ n: 2, state: "scheduled" });
  expect(job!.in_ms).toBeGreaterThan(55 * 60_000);
});

test("debounce puts a job that is due but not started off again, up to maxWait", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const debounce = { debounce: { key: "k", wait: "1h", maxWait: "2h" } };
  await stint.enqueue(sync, { n: 1 }, debounce);
  await fresh.sql(`update stint.job set state = 'ready', run_at = now()`);
  await fresh.sql(`select stint.recount()`);
  expect((await stint.enqueue(sync, { n: 2 }, debounce)).status).toBe("deferred");
  expect(await jobs(fresh)).toMatchObject([{ state: "scheduled", n: 2 }]);
  await expectTrueTallies(fresh);

  await fresh.sql(`update stint.job set created_at = now() - interval '90 minutes'`);
  await stint.enqueue(sync, { n: 3 }, debounce);
  expect((await jobs(fresh))[0]!.in_ms).toBeLessThan(31 * 60_000);
  await fresh.sql(`update stint.job set created_at = now() - interval '3 hours'`);
  expect((await stint.enqueue(sync, { n: 4 }, debounce)).status).toBe("replaced");
  expect(await jobs(fresh)).toMatchObject([{ state: "ready", n: 4 }]);
  await expectTrueTallies(fresh);
});

test("debounce during a run schedules one more run after it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = gate();
  const { ran } = await worker(stint, { 1: first });
  await stint.enqueue(sync, { n: 1 }, { debounce: { key: "k", wait: 1 } });
  await until(() => ran.length === 1);
  const next = await stint.enqueue(sync, { n: 2 }, { debounce: { key: "k", wait: "1h" } });
  expect(next.status).toBe("deferred");
  first.open();

  await until(async () => (await stint.get(next.id))?.state === "scheduled");
  expect(await jobs(fresh)).toMatchObject([{ id: next.id, n: 2, reason: null }]);
  await expectTrueTallies(fresh);
});

test("throttle lets the first through and returns it for the others", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { ran } = await worker(stint);
  const throttle = { throttle: { key: "k", every: "1h" } };
  const first = await stint.enqueue(sync, { n: 1 }, throttle);
  await stint.waitFor(first, { timeout: "60s" });
  expect(await stint.enqueue(sync, { n: 2 }, throttle)).toEqual({
    ...first,
    status: "existing",
    created: false,
  });
  await fresh.sql(`update stint.dedupe_window set expires_at = now() - interval '1 second'`);
  expect((await stint.enqueue(sync, { n: 3 }, throttle)).status).toBe("created");

  await until(() => ran.length === 2);
  expect(ran).toEqual([1, 3]);
  expect(await counted(fresh)).toEqual({ existing: 1 });
});

test("duplicates are counted in the series after a fold, and once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const enqueue = (options: EnqueueOptions) => stint.enqueue(sync, { n: 1 }, options);
  for (let i = 0; i < 3; i++) await enqueue({ dedupe: { key: "a" } });
  for (let i = 0; i < 3; i++) await enqueue({ dedupe: { key: "b", replace: true } });
  for (let i = 0; i < 3; i++) await enqueue({ debounce: { key: "c", wait: "1h" } });
  await fresh.sql(`select stint.fold_tallies()`);
  await enqueue({ dedupe: { key: "a" } });
  await fresh.sql(`select stint.fold_tallies()`);

  const [sums] = await fresh.sql(
    `select sum(existing)::int as existing, sum(replaced)::int as replaced, sum(deferred)::int as deferred
     from stint.series where step = 10`,
  );
  expect(sums).toEqual({ existing: 3, replaced: 2, deferred: 2 });
  expect(await counted(fresh)).toEqual({ existing: 3, replaced: 2, deferred: 2 });
});

test("a rolled-back replacement leaves the payload, the time and the counts", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.enqueue(sync, { n: 1 }, { ...replace, delay: "1h" });
  const client = await session(fresh);
  await client.query("begin");
  const inside = await stint.in(client).enqueue(sync, { n: 2 }, { ...replace, delay: "2h" });
  expect(inside.status).toBe("deferred");
  await client.query("rollback");

  const [job] = await jobs(fresh);
  expect(job!.n).toBe(1);
  expect(job!.in_ms).toBeLessThanOrEqual(3_600_000);
  expect(await counted(fresh)).toEqual({});
});

test("an open transaction that replaces does not hold up the running job", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = gate();
  const { ran } = await worker(stint, { 1: first });
  const running = await stint.enqueue(sync, { n: 1 }, replace);
  await until(() => ran.length === 1);
  const client = await session(fresh);
  await client.query("begin");
  const next = await stint.in(client).enqueue(sync, { n: 2 }, replace);
  expect(next.status).toBe("deferred");
  first.open();
  await stint.waitFor(running, { timeout: "60s" });
  expect(ran).toEqual([1]);

  await client.query("commit");
  await stint.waitFor(next, { timeout: "60s" });
  expect(ran).toEqual([1, 2]);
  await expectTrueTallies(fresh);
});

test("a job is not stranded when its replacement rolls back after the end of the other", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = gate();
  const { ran } = await worker(stint, { 1: first });
  const running = await stint.enqueue(sync, { n: 1 }, replace);
  await until(() => ran.length === 1);
  const next = await stint.enqueue(sync, { n: 2 }, replace);
  const client = await session(fresh);
  await client.query("begin");
  expect((await stint.in(client).enqueue(sync, { n: 3 }, replace)).id).toBe(next.id);
  first.open();
  await stint.waitFor(running, { timeout: "60s" });
  expect((await stint.get(next.id))?.state).toBe("parked");
  await client.query("rollback");

  await stint.waitFor(next, { timeout: "60s" });
  expect(ran).toEqual([1, 2]);
  expect(await fresh.sql(`select behind from stint.latest_missed`)).toEqual([]);
});

test("a handler that enqueues its own key in complete is followed by it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: number[] = [];
  const own = stint.worker({
    pools: { default: 2 },
    signals: false,
    poll: "100ms",
    handlers: [
      handle(sync, async ({ payload: { n }, complete }) => {
        ran.push(n);
        if (n < 4)
          await complete(async (tx) => {
            await stint.in(tx).enqueue(sync, { n: n + 1 }, replace);
          });
      }),
    ],
  });
  await own.start();
  await stint.enqueue(sync, { n: 1 }, replace);
  await until(() => ran.length === 4);
  expect(ran).toEqual([1, 2, 3, 4]);
});

test("a cancelled job behind another makes room for the next", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = gate();
  const { ran } = await worker(stint, { 1: first });
  await stint.enqueue(sync, { n: 1 }, replace);
  await until(() => ran.length === 1);
  const second = await stint.enqueue(sync, { n: 2 }, replace);
  await expect(stint.runNow(second.id)).rejects.toThrow(WrongStateError);
  await stint.cancel(second.id);
  const third = await stint.enqueue(sync, { n: 3 }, replace);
  expect(third.status).toBe("deferred");
  expect(third.id).not.toBe(second.id);
  first.open();
  await stint.waitFor(third, { timeout: "60s" });
  expect(ran).toEqual([1, 3]);
});

test.each<[EnqueueOptions, string]>([
  [{ dedupe: { key: "k", until: "1h", replace: true } }, "needs until"],
  [{ dedupe: { key: "k", replace: "payloads" as never } }, 'did you mean "payload"'],
  [{ dedupe: { key: "k", replace: null as never } }, "must be true"],
  [{ dedupe: { key: "k", replace: "runAt" } }, "needs the new time"],
  [{ dedupe: { key: "k" }, debounce: { key: "k", wait: "1s" } }, "takes one of"],
  [{ debounce: { wait: "1s" } }, "is needed"],
  [{ debounce: { key: "k" } as never }, "wait"],
  [{ debounce: { key: "k", wait: "1s", maxwait: "2s" } as never }, 'did you mean "maxWait"'],
  [{ debounce: { key: "k", wait: "2s", maxWait: "1s" } }, "must not be shorter"],
  [{ debounce: { key: "k", wait: "1s" }, delay: "1s" }, "sets the run time itself"],
  [{ debounce: { key: "k", wait: -1 } }, "wait"],
  [{ debounce: null as never }, "debounce"],
  [{ throttle: { key: "k" } as never }, "every"],
  [{ throttle: { key: "k", every: 0 } }, "every"],
  [{ throttle: { key: "\u0000", every: 5 } }, "key"],
])("%j is refused and changes nothing", async (options, text) => {
  const fresh = await freshSchema();
  const enqueue = fresh.client().enqueue(sync, { n: 1 }, options);
  await expect(enqueue).rejects.toThrow(InvalidOptionError);
  await expect(enqueue).rejects.toThrow(text);
  expect(await jobs(fresh)).toEqual([]);
});
