import { expect, test } from "vitest";
import { entry } from "#stint/index.js";
import { unusedSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { bystander, scripted, expireLeases, startWorkerProcess } from "../support/worker-process.ts";
import { inLab } from "../support/lab.ts";

const rounds = inLab ? 8 : 2;

/** Leases end only when a test says so. */
const worker = { lease: "1h" } as const;

/** Jobs of the kind `scripted`, each with a successor of the kind `bystander`. */
async function enqueueCarriers(fresh: Fresh, count: number): Promise<string[]> {
  const stint = fresh.client();
  const carriers = Array.from({ length: count }, () =>
    entry(scripted, { do: "succeed" }, { successor: entry(bystander, { do: "succeed" }) }),
  );
  return (await stint.enqueueMany(carriers)).map(({ id }) => id);
}

async function counts(fresh: Fresh): Promise<Record<string, number>> {
  const [row] = await fresh.sql<Record<string, number>>(
    `select
       (count(*) filter (where kind = 'scripted' and state = 'succeeded'))::integer as succeeded,
       (count(*) filter (where kind = 'bystander'))::integer as successors,
       (select count(*) from stint.follow_up)::integer as pending
     from stint.jobs`,
  );
  return row!;
}

test.each(["claimed", "before-settle", "settled"] as const)(
  "no successor is lost or doubled when its worker is killed with -9: %s",
  async (dieAt) => {
    const fresh = await unusedSchema();
    await enqueueCarriers(fresh, 30);
    const first = await startWorkerProcess(fresh, { dieAt, kinds: ["scripted"], worker });
    await first.ended;

    // At any moment there is one successor, or one to come, for each job.
    const { succeeded, successors, pending } = await counts(fresh);
    expect({ successors, pending }).toEqual({ successors: succeeded, pending: 30 - succeeded! });

    await expireLeases(fresh);
    await startWorkerProcess(fresh, { worker });
    await until(async () => (await counts(fresh))["succeeded"] === 30, { message: "all carriers succeed" });
    expect(await counts(fresh)).toEqual({ succeeded: 30, successors: 30, pending: 0 });
  },
);

test("workers killed again and again leave exactly one successor for each job", async () => {
  const fresh = await unusedSchema();
  await enqueueCarriers(fresh, 200);
  for (let round = 0; round < rounds; round++) {
    const doomed = await startWorkerProcess(fresh, {
      kinds: ["scripted"],
      worker: { ...worker, maxCrashes: 50 },
    });
    await doomed.reported("settled");
    doomed.kill("SIGKILL");
    await doomed.ended;
    await expireLeases(fresh);
  }
  await startWorkerProcess(fresh, { worker: { ...worker, maxCrashes: 50 } });

  await until(async () => (await counts(fresh))["succeeded"] === 200, { message: "all carriers succeed" });
  expect(await counts(fresh)).toEqual({ succeeded: 200, successors: 200, pending: 0 });
});

test("a worker paused past its lease enqueues no second successor when it goes on", async () => {
  const fresh = await unusedSchema();
  const stint = fresh.client();
  const paused = await startWorkerProcess(fresh, { kinds: ["scripted"], worker });
  const successor = entry(bystander, { do: "succeed" });
  const { id } = await stint.enqueue(scripted, { do: "ignore" }, { successor });
  await paused.reported("entered", id);
  paused.kill("SIGSTOP");
  await expireLeases(fresh);

  const other = await startWorkerProcess(fresh, { kinds: ["scripted"], worker });
  await other.reported("entered", id);
  other.go(id);
  await stint.waitFor(id, { timeout: "60s" });
  expect(await counts(fresh)).toEqual({ succeeded: 1, successors: 1, pending: 0 });

  paused.go(id);
  paused.kill("SIGCONT");
  await paused.reported("leaseLost", id);
  expect(await counts(fresh)).toEqual({ succeeded: 1, successors: 1, pending: 0 });
});
