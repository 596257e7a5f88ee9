import { expect, test } from "vitest";
import { entry } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { inLab, slice } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { bystander, expireLeases, scripted, startWorkerProcess } from "../support/worker-process.ts";

/** Leases end only when a test ends them. */
const worker = { lease: "1h", maxCrashes: 50 } as const;
const succeed = { do: "succeed" } as const;

/** What must be equal at every moment: one follower for each job that succeeded, and one still to come for each other. */
async function conserved(fresh: Fresh): Promise<Record<string, number>> {
  const [row] = await fresh.sql<Record<string, number>>(
    `select
       (count(*) filter (where kind = 'scripted' and state = 'succeeded'))::integer as succeeded,
       (count(*) filter (where kind = 'bystander' and state <> 'parked'))::integer as followers
     from stint.jobs`,
  );
  return row!;
}

/** How jobs of the kind `scripted` get one follower each of the kind `bystander`. */
const ways: Record<string, (fresh: Fresh, count: number) => Promise<unknown>> = {
  "a continuation": (fresh, count) =>
    fresh.client().enqueueMany(Array.from({ length: count }, () => entry(scripted, { do: "continue" }))),
  "a job that waits": async (fresh, count) => {
    const stint = fresh.client();
    const first = await stint.enqueueMany(Array.from({ length: count }, () => entry(scripted, succeed)));
    await stint.enqueueMany(first.map((job) => entry(bystander, succeed, { after: [job] })));
  },
};

const moments = slice(
  (["claimed", "before-settle", "settled"] as const).flatMap((dieAt) =>
    Object.keys(ways).map((way) => [way, dieAt] as const),
  ),
  ([way, dieAt]) => way === "a job that waits" && dieAt === "before-settle",
);

test.each(moments)("%s is neither lost nor doubled by kill -9: %s", async (way, dieAt) => {
  const fresh = await freshSchema();
  await ways[way]!(fresh, 20);
  const first = await startWorkerProcess(fresh, { dieAt, kinds: ["scripted"], worker });
  await first.ended;
  const { succeeded, followers } = await conserved(fresh);
  expect(followers).toBe(succeeded);

  await expireLeases(fresh);
  await startWorkerProcess(fresh, { worker });
  await until(async () => (await conserved(fresh))["succeeded"] === 20, { message: "all jobs succeed" });
  expect(await conserved(fresh)).toEqual({ succeeded: 20, followers: 20 });
});

test("a fan-in over workers that are killed runs once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const first = await stint.enqueueMany(Array.from({ length: 200 }, () => entry(scripted, succeed)));
  const last = await stint.enqueue(bystander, succeed, { after: first });
  for (let round = 0; round < (inLab ? 3 : 1); round++) {
    const doomed = await startWorkerProcess(fresh, { kinds: ["scripted"], worker });
    await doomed.reported("settled");
    doomed.kill("SIGKILL");
    await doomed.ended;
    await expireLeases(fresh);
  }
  await Promise.all([startWorkerProcess(fresh, { worker }), startWorkerProcess(fresh, { worker })]);

  await stint.waitFor(last, { timeout: "60s" });
  expect(await conserved(fresh)).toEqual({ succeeded: 200, followers: 1 });
  expect(await stint.get(last)).toMatchObject({ epoch: 1 });
});

test("a worker paused past its lease continues no chain a second time", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const paused = await startWorkerProcess(fresh, { kinds: ["scripted"], worker });
  const { id } = await stint.enqueue(scripted, { do: "ignore-then-continue" });
  await paused.reported("entered", id);
  paused.kill("SIGSTOP");
  await expireLeases(fresh);

  const other = await startWorkerProcess(fresh, { worker });
  await other.reported("entered", id);
  other.go(id);
  await stint.waitFor(id, { timeout: "60s" });
  expect(await conserved(fresh)).toEqual({ succeeded: 1, followers: 1 });

  paused.go(id);
  paused.kill("SIGCONT");
  await paused.reported("leaseLost", id);
  expect(await conserved(fresh)).toEqual({ succeeded: 1, followers: 1 });
});
