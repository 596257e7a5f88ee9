import { expect, onTestFinished, test } from "vitest";
import { defineJob, handle, typed, type Stint, type WorkerOptions } from "#stint/index.js";
import { startCutProxy, type CutProxy } from "../support/cut-proxy.ts";
import { adminClient } from "../support/database.ts";
import { passTime } from "../support/database-time.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until, untilSteady } from "../support/until.ts";
import { startWorker, type Watched } from "../support/watch.ts";

const work = defineJob("work", { payload: typed<object>() });

type Sleeper = Watched & {
  readonly stint: Stint;
  readonly proxy: CutProxy;
  readonly ran: string[];
  /** Resolves when the worker has recorded its sleep and has the replies to its earlier statements. */
  readonly asleep: () => Promise<void>;
};

/** A worker that soon falls asleep. Everything it sends, on any of its connections, goes through the proxy. */
async function startSleeper(fresh: Fresh, options: Partial<WorkerOptions> = {}): Promise<Sleeper> {
  const proxy = await startCutProxy(fresh.url);
  const stint = fresh.client({ database: proxy.url });
  const ran: string[] = [];
  const watched = await startWorker(stint, {
    sleep: "200ms",
    handlers: [handle(work, ({ id }) => void ran.push(id))],
    ...options,
  });
  const asleep = async (): Promise<void> => {
    await until(
      async () => {
        const [row] = await fresh.sql("select asleep, listening from stint.worker where id = $1", [
          watched.worker.id,
        ]);
        return row?.["asleep"] === true && row["listening"] === true;
      },
      { message: "the worker sleeps" },
    );
    // Upkeep that was under way when it fell asleep comes to its end.
    await until(async () => (await fresh.sql(underWay, [fresh.schema])).length === 0, {
      message: "nothing is under way",
    });
    await untilSteady(() => sent(proxy), 100);
  };
  return { ...watched, stint, proxy, ran, asleep };
}

/** The notifications to this installation's workers, from now on. */
async function receiveWakes(fresh: Fresh): Promise<{ received: () => Promise<string[]> }> {
  const client = await adminClient(fresh.url);
  onTestFinished(() => client.end());
  const hints: string[] = [];
  client.on("notification", ({ payload }) => void hints.push(payload ?? ""));
  await client.query(`listen "stint:${fresh.schema}"`);
  return {
    async received() {
      // Earlier notifications have arrived when this one does.
      await fresh.sql("select pg_notify(stint.wake_channel(), 'mark')");
      await until(() => hints.includes("mark"), { message: "the mark is received" });
      return hints.splice(0).filter((hint) => hint !== "mark");
    },
  };
}

const underWay = `
  select from pg_stat_activity
  where pid <> pg_backend_pid() and state <> 'idle' and query like '%' || $1 || '%'`;

/** How much clients have sent, of whatever kind. */
const sent = (proxy: CutProxy): number => proxy.count("");

test("a sleeping worker sends nothing at all", async () => {
  const fresh = await freshSchema();
  const { proxy, asleep } = await startSleeper(fresh);
  await asleep();
  const before = sent(proxy);
  await passTime(fresh, 2_000);

  expect(sent(proxy) - before).toBe(0);
});

test("a sleeping worker wakes for a job of another client, and sleeps again", async () => {
  const fresh = await freshSchema();
  const { stint, ran, asleep } = await startSleeper(fresh);
  const other = fresh.client();
  for (const round of [1, 2]) {
    await asleep();
    const { id } = await other.enqueue(work, {});
    await other.waitFor(id, { timeout: "60s" });
    expect(ran).toHaveLength(round);
  }
  expect((await stint.workers())[0]).toMatchObject({ asleep: false });
});

test("it wakes for a job of its own process without a NOTIFY", async () => {
  const fresh = await freshSchema();
  const { stint, ran, asleep } = await startSleeper(fresh);
  await asleep();
  await fresh.sql("update stint.worker set listening = false");
  const { received } = await receiveWakes(fresh);
  const { id } = await stint.enqueue(work, {});
  await until(() => ran.includes(id), { message: "the job runs" });

  expect(await received()).toEqual([]);
});

test("worker.wake() wakes it, and it claims a job that sent no wake", async () => {
  const fresh = await freshSchema();
  const { worker, ran, asleep } = await startSleeper(fresh);
  await asleep();
  await fresh.sql("update stint.worker set listening = false");
  const { id } = await fresh.client().enqueue(work, {});
  await passTime(fresh, 300);
  expect(ran).toEqual([]);
  worker.wake();
  await until(() => ran.includes(id), { message: "the job runs" });
});

/** A worker that sleeps while a job is scheduled. On a busy machine the job may be due before the worker sleeps: then later. */
async function sleeperWithScheduledJob(firstDelay: number) {
  for (let delay = firstDelay; ; delay *= 2) {
    const fresh = await freshSchema();
    const other = fresh.client();
    const early = await other.enqueue(work, {}, { delay });
    const { ran, asleep } = await startSleeper(fresh);
    await asleep();
    if (ran.length === 0) return { other, early, ran };
  }
}

test("it wakes in time for jobs scheduled before and during its sleep", async () => {
  const { other, early, ran } = await sleeperWithScheduledJob(4_000);
  const soon = await other.enqueue(work, {}, { delay: 50 });
  await until(() => ran.includes(soon.id), { message: "the job scheduled meanwhile runs" });
  await until(() => ran.includes(early.id), { message: "the job scheduled before runs" });
  const late = await other.get(early.id);

  // It would look by itself after a quarter of an hour.
  expect(late!.claimedAt!.getTime() - late!.runAt.getTime()).toBeLessThan(60_000);
});

test("enqueuers wake it however long it sleeps, but not a worker that went silent", async () => {
  const fresh = await freshSchema();
  const { ran, asleep } = await startSleeper(fresh);
  await asleep();
  await fresh.sql("update stint.worker set seen_at = now() - interval '2 hours'");
  const { received } = await receiveWakes(fresh);
  const { id } = await fresh.client().enqueue(work, {});
  await until(() => ran.includes(id), { message: "the job runs" });
  expect(await received()).toContain("ready:default");

  await asleep();
  await fresh.sql("update stint.worker set seen_at = now() - interval '2 hours', asleep = false");
  const other = fresh.client();
  await other.enqueue(work, {});
  await other.close();
  expect(await received()).toEqual([]);
});

test("an enqueue in a transaction wakes it at the commit", async () => {
  const fresh = await freshSchema();
  const { ran, asleep } = await startSleeper(fresh);
  await asleep();
  await fresh.sql("update stint.worker set seen_at = now() - interval '2 hours'");
  const [row] = await fresh.sql("select stint.enqueue('work', '{}') as id");
  await until(() => ran.length > 0, { message: "the job runs" });
  expect(ran).toEqual([row?.["id"]]);
});

test("it does not sleep before it has rescued the jobs of a dead worker", async () => {
  const fresh = await freshSchema();
  const { id } = await fresh.client().enqueue(work, {});
  await fresh.sql(
    `update stint.job
     set state = 'running', attempts = 1, epoch = 1, lease_id = gen_random_uuid(), worker = 'dead',
       claimed_at = now() - interval '1 hour', lease_until = now() - interval '1 hour'`,
  );
  // Its first look for leases rests for longer than it takes to fall asleep.
  const { ran } = await startSleeper(fresh, { rescueEvery: "2s" });
  await until(() => ran.length > 0, { message: "the job runs" });
  expect(ran).toEqual([id]);
});

test("it does not sleep while a job runs, and a stop ends its sleep at once", async () => {
  const fresh = await freshSchema();
  const { stint, worker, asleep } = await startSleeper(fresh, {
    handlers: [handle(work, async () => await passTime(fresh, 1_000))],
  });
  const { id } = await stint.enqueue(work, {});
  await until(() => worker.running === 1, { message: "the job runs" });
  const sleeps = new Set<boolean>();
  await until(
    async () => {
      const [own] = await stint.workers();
      if (worker.running === 0) return true;
      sleeps.add(own!.asleep);
      return false;
    },
    { message: "the job has run" },
  );
  expect([...sleeps]).toEqual([false]);
  expect(await stint.waitFor(id, { timeout: "60s" })).toBeNull();
  await asleep();

  expect(await worker.stop()).toMatchObject({ drained: 0, released: 0 });
  expect(await fresh.sql("select from stint.worker")).toEqual([]);
});
