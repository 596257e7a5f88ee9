import { expect, test } from "vitest";
import { adminClient } from "../support/database.ts";
import { firedOnce, series } from "../schedules/series.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { inLab } from "../support/lab.ts";
import { until } from "../support/until.ts";
import {
  scripted,
  spawnWorkerProcess,
  startWorkerProcess,
  type WorkerProcess,
} from "../support/worker-process.ts";

const rule = { every: "1s", job: scripted, payload: { do: "succeed" }, catchUp: "all" } as const;

/** Waits until a process waits in the server in the middle of a firing. */
async function untilFiring(fresh: Fresh): Promise<void> {
  await until(
    async () =>
      (
        await fresh.sql(
          "select from pg_stat_activity where query like '%stint:fire-schedules%' and wait_event_type = 'Lock' and query like $1",
          [`%"${fresh.schema}"%`],
        )
      ).length > 0,
    { message: "a firing waits for the lock of the test" },
  );
}

/** Runs `work` while every firing waits in its transaction. */
async function whileFiringWaits(fresh: Fresh, work: () => Promise<unknown>): Promise<void> {
  const client = await adminClient(fresh.url);
  try {
    await client.query("begin");
    await client.query(`lock table "${fresh.schema}".schedule_slot in exclusive mode`);
    await untilFiring(fresh);
    await work();
  } finally {
    await client.query("rollback");
    await client.end();
  }
}

test("a worker killed in the middle of a firing loses no slot and doubles none", async () => {
  const fresh = await freshSchema();
  await fresh.client().schedules.set("tick", rule);
  const first = await startWorkerProcess(fresh);
  await whileFiringWaits(fresh, async () => {
    first.kill("SIGKILL");
    await first.ended;
  });
  await startWorkerProcess(fresh);

  await until(async () => ((await series(fresh))[0]?.fired ?? 0) >= 4);
  expect(firedOnce(await series(fresh))).toEqual([]);
});

test("a worker paused in the middle of a firing holds up no slot and doubles none", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.schedules.set("tick", rule);
  const paused = await startWorkerProcess(fresh);
  await whileFiringWaits(fresh, async () => paused.kill("SIGSTOP"));
  await startWorkerProcess(fresh);
  await until(async () => ((await series(fresh))[0]?.fired ?? 0) >= 3);
  paused.kill("SIGCONT");
  const { fired = 0 } = (await series(fresh))[0] ?? {};

  await until(async () => ((await series(fresh))[0]?.fired ?? 0) >= fired + 2);
  expect(firedOnce(await series(fresh))).toEqual([]);
});

test("slots of many schedules fire once each while workers are killed and paused", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const names = Array.from({ length: 20 }, (_, index) => `s${index}`);
  let workers: WorkerProcess[] = await Promise.all(
    [1, 2, 3].map(async () => await startWorkerProcess(fresh)),
  );
  await stint.schedules.setMany(names.map((name) => ({ name, ...rule })));

  for (let round = 1; round <= (inLab ? 4 : 2); round++) {
    const [victim, sleeper, ...rest] = workers;
    await until(
      async () =>
        (await series(fresh)).length === 20 && (await series(fresh)).every(({ fired }) => fired >= round),
    );
    victim!.kill("SIGKILL");
    sleeper!.kill("SIGSTOP");
    workers = [...rest, spawnWorkerProcess(fresh), sleeper!];
    await until(async () => (await series(fresh)).every(({ fired }) => fired > round));
    sleeper!.kill("SIGCONT");
  }
  for (const name of names) await stint.schedules.pause(name);

  const all = await series(fresh);
  expect(all).toHaveLength(20);
  expect(firedOnce(all)).toEqual([]);
});
