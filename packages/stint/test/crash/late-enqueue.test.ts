import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, handle, typed, type Stint } from "#stint/index.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { ownServer } from "../support/own-server.ts";
import { until } from "../support/until.ts";
import { slice } from "../support/lab.ts";

const note = defineJob("note", { payload: typed<string>() });

type Way = (stint: Stint, payload: string) => Promise<unknown>;
const everyWay: Record<string, Way> = {
  plain: (stint, payload) => stint.enqueue(note, payload),
  "with options": (stint, payload) => stint.enqueue(note, payload, { priority: 1, tags: ["t"] }),
  "dedupe for a time": (stint, payload) =>
    stint.enqueue(note, payload, { dedupe: { key: payload, until: "1h" } }),
  "dedupe until finished": (stint, payload) => stint.enqueue(note, payload, { dedupe: { key: payload } }),
  "a batch": (stint, payload) => stint.enqueueMany([1, 2].map((n) => entry(note, `${payload} ${n}`))),
};

/** Each has its own client, with its own connections. */
const ways = Object.fromEntries(
  slice(Object.entries(everyWay), ([name]) => !["with options", "dedupe until finished"].includes(name)),
);

/** Runs every job of this installation, and remembers their payloads. */
async function runAll(fresh: Fresh): Promise<string[]> {
  const runs: string[] = [];
  const worker = fresh.client().worker({
    pools: { default: 4 },
    signals: false,
    poll: 100,
    handlers: [handle(note, ({ payload }) => void runs.push(payload))],
  });
  onTestFinished(async () => void (await worker.stop({ drain: 0, abort: 0 })));
  await worker.start();
  return runs;
}

async function untilDrained(fresh: Fresh): Promise<void> {
  await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
    message: "every job has ended",
  });
}

/** Server processes of the clients. */
async function pidsOf(fresh: Fresh): Promise<number[]> {
  const rows = await fresh.sql<{ pid: number }>(
    "select pid from pg_stat_activity where application_name = 'stint'",
  );
  return rows.map(({ pid }) => pid);
}

test("an enqueue frozen in its backend adds no second job after its repeat has run", async () => {
  const server = await ownServer();
  onTestFinished(() => server.remove());
  const fresh = await freshSchema(server.url);
  const clients = Object.entries(ways).map(([name, way]) => ({ name, way, stint: fresh.client() }));
  // Connected: what stands still from now on is the enqueue itself.
  await Promise.all(clients.map(({ stint, way, name }) => way(stint, `${name}: before`)));
  const stopped = await pidsOf(fresh);
  for (const pid of stopped) process.kill(pid, "SIGSTOP");

  // At once: a connection that is idle for ten seconds would be replaced. The worker comes later, and none of its is stopped.
  const sent = Promise.all(clients.map(({ stint, way, name }) => way(stint, `${name}: stopped`)));
  const runs = await runAll(fresh);
  await sent;
  await untilDrained(fresh);
  for (const pid of stopped) process.kill(pid, "SIGCONT");
  await until(async () => !(await pidsOf(fresh)).some((pid) => stopped.includes(pid)), {
    message: "the sessions that stood still have ended",
  });
  await untilDrained(fresh);

  expect(stopped.length).toBeGreaterThanOrEqual(clients.length);
  expect(runs.toSorted()).toEqual([...new Set(runs)].sort());
  expect(await fresh.sql("select from stint.jobs")).toHaveLength(2 * (clients.length + 1));
});

test("an enqueue delayed by the network adds no second job after its repeat has run", async () => {
  const fresh = await freshSchema();
  const runs = await runAll(fresh);
  const clients = await Promise.all(
    Object.entries(ways).map(async ([name, way]) => {
      const proxy = await startCutProxy(fresh.url);
      const stint = fresh.client({ database: proxy.url });
      await way(stint, `${name}: before`);
      return { name, way, stint, held: proxy.holdAt(".enqueue") };
    }),
  );

  await Promise.all(clients.map(({ stint, way, name }) => way(stint, `${name}: held`)));
  await untilDrained(fresh);
  await Promise.all(clients.map(async ({ held }) => await (await held).release()));
  await untilDrained(fresh);

  expect(runs.toSorted()).toEqual([...new Set(runs)].sort());
  expect(await fresh.sql("select from stint.jobs")).toHaveLength(2 * (clients.length + 1));
});

const delayed = [
  { held: ".enqueue", name: "its first statement" },
  { held: "commit", name: "its commit" },
];

test.each(slice(delayed, ({ held }) => held === "commit"))(
  "a transaction of many statements of which $name was delayed counts once",
  async ({ held: marker }) => {
    const fresh = await freshSchema();
    const proxy = await startCutProxy(fresh.url);
    const stint = fresh.client({ database: proxy.url });
    await stint.enqueue(note, "before");
    const held = proxy.holdAt(marker);
    const payloads = Array.from({ length: 2_100 }, (_, n) => String(n));
    const enqueued = stint.enqueueMany(payloads.map((payload) => entry(note, payload)));
    const late = await held;
    // Its rows are in the index, and the repeat has to wait for their transaction.
    if (marker === "commit")
      await until(
        async () =>
          (
            await fresh.sql(`select from pg_stat_activity where wait_event_type = 'Lock' and query like $1`, [
              `%"${fresh.schema}".enqueue%`,
            ])
          ).length > 0,
        { message: "the repeat waits", deadlineMs: 45_000 },
      );
    else await enqueued;
    await late.release();

    expect(await enqueued).toHaveLength(payloads.length);
    expect(await fresh.sql("select from stint.job")).toHaveLength(payloads.length + 1);
  },
);
