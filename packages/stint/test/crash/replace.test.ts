import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import type { Enqueued } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { expireLeases, scripted, startWorkerProcess, type Action } from "../support/worker-process.ts";

const worker = { lease: "1h", maxCrashes: 50, pools: { default: 4 } } as const;

function version(n: number): Action {
  const action = { do: "succeed", n } as const;
  return action;
}

/** For each key: the newest version that ran to its end, and the jobs that are left. */
async function outcome(
  fresh: Fresh,
): Promise<{ newest: Record<string, number>; live: number; behind: number }> {
  const rows = await fresh.sql<{ key: string; n: number }>(
    `select distinct on (key) key, (payload ->> 'n')::int as n from stint.history where state = 'succeeded'
     order by key, finished_at desc`,
  );
  const [left] = await fresh.sql<{ live: number; behind: number }>(
    `select (select count(*) from stint.job)::int as live, (select count(*) from stint.latest)::int as behind`,
  );
  return { newest: Object.fromEntries(rows.map(({ key, n }) => [key, n])), ...left! };
}

test("workers and producers killed again and again lose no newest version", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const keys = Array.from({ length: inLab ? 6 : 3 }, (_, n) => `k${n}`);
  const sent: Record<string, number> = {};
  const stopped = new AbortController();
  const produce = async (key: string): Promise<void> => {
    const client = new Client({ connectionString: fresh.url });
    await client.connect();
    client.on("error", () => undefined);
    onTestFinished(() => client.end());
    for (let n = 1; !stopped.signal.aborted; n++) {
      const options = { key, dedupe: { replace: true } } as const;
      const action = version(n);
      if (n % 3 === 0) {
        // A transaction that is open for a while, and often rolls back.
        await client.query("begin");
        await stint.in(client).enqueue(scripted, action, options);
        for (let i = 0; i < 5; i++) await client.query("select 1");
        const ending = n % 2 === 0 ? "commit" : "rollback";
        await client.query(ending);
        if (ending === "commit") sent[key] = n;
      } else {
        await stint.enqueue(scripted, action, options);
        sent[key] = n;
      }
    }
  };
  const producers = keys.map(produce);
  for (let round = 0; round < (inLab ? 8 : 2); round++) {
    const doomed = await startWorkerProcess(fresh, {
      kinds: ["scripted"],
      worker,
      ...(round % 2 === 0 ? { dieAt: "before-settle" } : {}),
    });
    if (round % 2 === 1) {
      await doomed.reported("settled");
      doomed.kill("SIGKILL");
    }
    await doomed.ended;
    await expireLeases(fresh);
  }
  stopped.abort();
  await Promise.all(producers);
  await startWorkerProcess(fresh, { kinds: ["scripted"], worker });

  await until(async () => (await outcome(fresh)).live === 0, { message: "all jobs end" });
  expect(await outcome(fresh)).toEqual({ newest: sent, live: 0, behind: 0 });
});

test("a worker paused past its lease lifts no second job when it continues", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const enqueue = (action: Action): Promise<Enqueued> =>
    stint.enqueue(scripted, action, { dedupe: { key: "k", replace: true } });
  const paused = await startWorkerProcess(fresh, { kinds: ["scripted"], worker });
  const { id } = await enqueue({ do: "ignore" });
  await paused.reported("entered", id);
  const next = await enqueue({ do: "ignore" });
  expect(next.status).toBe("deferred");
  paused.kill("SIGSTOP");
  await expireLeases(fresh);

  const other = await startWorkerProcess(fresh, { kinds: ["scripted"], worker });
  await other.reported("entered", id);
  other.go(id);
  await other.reported("entered", next.id);
  const third = await enqueue({ do: "succeed" });
  expect(third.status).toBe("deferred");

  paused.go(id);
  paused.kill("SIGCONT");
  await paused.reported("leaseLost", id);
  // The refused outcome has lifted nothing: the third still waits for the second.
  expect((await stint.get(third.id))?.state).toBe("parked");
  other.go(next.id);
  await stint.waitFor(third.id, { timeout: "60s" });
  expect(await fresh.sql(`select count(*)::int as n from stint.history`)).toEqual([{ n: 3 }]);
});

test("a producer that vanishes while it replaces strands nothing", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const options = { dedupe: { key: "k", replace: true } } as const;
  const own = await startWorkerProcess(fresh, { kinds: ["scripted"], worker });
  const { id } = await stint.enqueue(scripted, { do: "ignore" }, options);
  await own.reported("entered", id);
  const next = await stint.enqueue(scripted, { do: "succeed" }, options);
  const client = new Client({ connectionString: fresh.url });
  await client.connect();
  client.on("error", () => undefined);
  await client.query("begin");
  await stint.in(client).enqueue(scripted, { do: "throw", message: "never committed" }, options);
  own.go(id);
  await stint.waitFor(id, { timeout: "60s" });
  const [row] = (await client.query<{ pid: number }>("select pg_backend_pid() as pid")).rows;
  await fresh.sql(`select pg_terminate_backend($1)`, [row!.pid]);

  await stint.waitFor(next.id, { timeout: "60s" });
  expect(await outcome(fresh)).toMatchObject({ live: 0, behind: 0 });
});
