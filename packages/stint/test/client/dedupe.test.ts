import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, handle, typed, type Enqueued, type EnqueueOptions, type Stint } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

const sync = defineJob("sync", { payload: typed<{ n: number }>() });
type Until = NonNullable<NonNullable<EnqueueOptions["dedupe"]>["until"]>;

const enqueue = (stint: Stint, until: Until, key = "k") =>
  stint.enqueue(sync, { n: 1 }, { dedupe: { key, until } });

const existing = (first: Enqueued): Enqueued => ({ ...first, status: "existing", created: false });

async function liveIds(fresh: Fresh): Promise<string[]> {
  return (await fresh.sql<{ id: string }>("select id from stint.job order by id")).map((row) => row.id);
}

async function openTransaction(fresh: Fresh): Promise<Client> {
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query("begin");
  return client;
}

/** Waits until this many enqueues wait for another session's transaction. */
async function untilWaiting(fresh: Fresh, count: number): Promise<void> {
  await until(
    async () => {
      const [row] = await fresh.sql<{ n: number }>(
        `select count(*)::int as n from pg_stat_activity
         where wait_event_type = 'Lock' and query like '%' || $1 || '%'`,
        [fresh.schema],
      );
      return row!.n === count;
    },
    { message: `${count} enqueues wait` },
  );
}

/** A worker whose handler waits until the test ends it. */
async function heldWorker(stint: Stint) {
  const started = gate();
  const finish = gate();
  const worker = stint.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [
      handle(sync, async () => {
        started.open();
        await finish.opened;
      }),
    ],
  });
  await worker.start();
  return { started: started.opened, finish: finish.open, stop: () => worker.stop() };
}

test.each<Until>(["started", "finished", "1h"])(
  "until %s, the first is created and the next returns it",
  async (untilWhen) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const first = await enqueue(stint, untilWhen);
    expect(first.created).toBe(true);
    expect(await enqueue(stint, untilWhen)).toEqual(existing(first));
    expect((await enqueue(stint, untilWhen, "other")).created).toBe(true);
    const sameKey = defineJob("another-kind", { payload: typed<unknown>() });
    expect((await stint.enqueue(sameKey, 1, { dedupe: { key: "k", until: untilWhen } })).created).toBe(true);
    expect(await liveIds(fresh)).toHaveLength(3);
  },
);

test("a running job blocks a key held until finished, not one held until started", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = await enqueue(stint, "started", "s");
  const held = await heldWorker(stint);
  await held.started;
  expect((await enqueue(stint, "started", "s")).created).toBe(true);
  held.finish();
  await stint.waitFor(first, { timeout: "60s" });
  await held.stop();

  const second = await enqueue(stint, "finished", "f");
  const again = await heldWorker(stint);
  await again.started;
  expect(await enqueue(stint, "finished", "f")).toEqual(existing(second));
  again.finish();
  await stint.waitFor(second, { timeout: "60s" });
  const third = await enqueue(stint, "finished", "f");
  expect(third.created).toBe(true);
  expect(third.id).not.toBe(second.id);
  await again.stop();
});

test("a finished job blocks a key held for a time until that time ends", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = await enqueue(stint, "1h");
  await stint.cancel(first.id);
  expect(await enqueue(stint, "1h")).toEqual(existing(first));

  await fresh.sql("update stint.dedupe_window set expires_at = clock_timestamp()");
  const second = await enqueue(stint, "1h");
  expect(second.created).toBe(true);
  expect(await enqueue(stint, "1h")).toEqual(existing(second));
});

test.each<Until>(["started", "finished", "1h"])(
  "until %s, twenty callers at once make one job and all learn its id",
  async (untilWhen) => {
    const fresh = await freshSchema();
    const clients = [fresh.client({ connections: 5 }), fresh.client({ connections: 5 })];
    const enqueued = await Promise.all(
      Array.from({ length: 20 }, (_, n) => enqueue(clients[n % 2]!, untilWhen)),
    );

    expect(enqueued.filter((one) => one.created)).toHaveLength(1);
    expect(new Set(enqueued.map((one) => one.id)).size).toBe(1);
    expect(await liveIds(fresh)).toEqual([enqueued[0]!.id]);
  },
);

test.each<Until>(["finished", "1h"])(
  "until %s, the loser of a race gets its own job when the winner rolls back",
  async (untilWhen) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const tx = await openTransaction(fresh);
    const winner = await stint.in(tx).enqueue(sync, { n: 0 }, { dedupe: { key: "k", until: untilWhen } });
    const losing = enqueue(stint, untilWhen);
    await untilWaiting(fresh, 1);
    await tx.query("rollback");

    const loser = await losing;
    expect(loser.created).toBe(true);
    expect(loser.id).not.toBe(winner.id);
    expect(await liveIds(fresh)).toEqual([loser.id]);
  },
);

test.each<Until>(["finished", "1h"])(
  "until %s, the loser of a race returns the winner's job once that commits",
  async (untilWhen) => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const tx = await openTransaction(fresh);
    const winner = await stint.in(tx).enqueue(sync, { n: 0 }, { dedupe: { key: "k", until: untilWhen } });
    const losing = enqueue(stint, untilWhen);
    await untilWaiting(fresh, 1);
    await tx.query("commit");

    expect(await losing).toEqual(existing(winner));
    expect(await liveIds(fresh)).toEqual([winner.id]);
  },
);

test("enqueues that wait for a transaction delay no plain enqueue, read or worker", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const echo = defineJob("echo", { payload: typed<number>(), result: typed<number>() });
  const worker = stint.worker({
    pools: { default: 2 },
    signals: false,
    handlers: [handle(echo, ({ payload }) => payload)],
  });
  await worker.start();
  const tx = await openTransaction(fresh);
  for (const key of ["a", "b", "c"]) await stint.in(tx).enqueue(sync, { n: 0 }, { dedupe: { key } });
  // More than the client has connections of its own.
  const waiting = ["a", "b", "c"].map((key) => enqueue(stint, "finished", key));
  await untilWaiting(fresh, 3);

  const enqueued = await Promise.all([1, 2, 3].map((n) => stint.enqueue(echo, n)));
  const results = await Promise.all(enqueued.map((one) => stint.waitFor(one, { timeout: "60s" })));
  expect(results).toEqual([1, 2, 3]);
  await untilWaiting(fresh, 3);

  await tx.query("commit");
  expect((await Promise.all(waiting)).map((one) => one.created)).toEqual([false, false, false]);
  await worker.stop();
});
