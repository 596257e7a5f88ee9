/** A worker is killed or paused at each statement that takes, confirms or frees room of a limit. */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { defineJob, entry, typed } from "#stint/index.js";
import { tendLimits } from "#stint/sql/limits.js";
import { startCutProxy, type CutProxy } from "../support/cut-proxy.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { slice } from "../support/lab.ts";
import { until } from "../support/until.ts";
import { createVisits, mostAtOnce } from "../support/visits.ts";
import { builtProgram, startWorkerProcess, type WorkerProcess } from "../support/worker-process.ts";

type Visit = { key: string; n: number; ms: number };

// The same as in the fixture.
const capped = defineJob("capped", {
  payload: typed<Visit>(),
  limits: [
    { key: ({ key }) => key, max: 2 },
    { name: "all", max: 5 },
  ],
});
const roomy = defineJob("roomy", { payload: typed<Visit>(), limits: [{ max: 14 }] });
const ordered = defineJob("ordered", { payload: typed<Visit>(), order: { key: ({ key }) => key } });

const program = fileURLToPath(new URL("../fixtures/limits-process.mjs", import.meta.url));
const jobs = 36;

/** Leases end only when the test ends them. */
const options = { program: builtProgram(program), worker: { pools: { default: 6 }, lease: "1h" } } as const;
const rescuing = { ...options, worker: { ...options.worker, rescueEvery: 300 } };

/** The statements at which a worker that runs limited jobs can die, by a part of their text. The client replaces the schema in it. */
const points = [
  { name: "taking a share", marker: "stint:take-share */", kinds: [roomy] },
  { name: "confirming it", marker: "stint:open-shares */", kinds: [roomy] },
  { name: "claiming in it", marker: "open_shares($4)) as shares", kinds: [roomy] },
  { name: "settling in it", marker: "stint:succeed */", kinds: [roomy] },
  { name: "taking places", marker: "stint:take-places */", kinds: [capped, ordered] },
  { name: "settling with places", marker: "stint:finish-followed */", kinds: [capped, ordered] },
].flatMap((point) => [
  { ...point, when: "before" },
  { ...point, when: "after" },
]);
type Point = (typeof points)[number];

async function enqueue({ kinds }: Point): Promise<Fresh> {
  const fresh = await freshSchema();
  await createVisits(fresh);
  await fresh.client().enqueueMany(
    Array.from({ length: jobs }, (_, n) => {
      const payload = { key: `k${n % 3}`, n, ms: 1 };
      return entry(kinds[n % kinds.length]!, payload);
    }),
  );
  return fresh;
}

/** A worker that has come to the point. `release` sends its statement to the server, or ends the connection on which the response is missing. */
async function startUntil(
  fresh: Fresh,
  { marker, when }: Point,
): Promise<{ worker: WorkerProcess; release: () => Promise<void> }> {
  const proxy: CutProxy = await startCutProxy(fresh.url);
  const held = when === "before" ? proxy.holdAt(marker) : undefined;
  const muted = when === "after" ? proxy.muteAt(marker) : undefined;
  const worker = await startWorkerProcess({ url: proxy.url, schema: fresh.schema }, options);
  await muted;
  const statement = await held;
  return {
    worker,
    async release() {
      await statement?.release();
      proxy.endMuted();
    },
  };
}

async function expectAllEnded(fresh: Fresh): Promise<void> {
  await until(
    async () => (await fresh.sql(`select from stint.history where state = 'succeeded'`)).length === jobs,
    { message: "every job has ended" },
  );
  expect(await mostAtOnce(fresh, "kind", "roomy")).toBeLessThanOrEqual(14);
  expect(await mostAtOnce(fresh, "key", "capped")).toBeLessThanOrEqual(2);
  expect(await mostAtOnce(fresh, "kind", "capped")).toBeLessThanOrEqual(5);
  expect(await mostAtOnce(fresh, "key", "ordered")).toBeLessThanOrEqual(1);
}

const isKilledInCi = ({ name, when }: Point): boolean =>
  (name === "claiming in it" && when === "before") || (name === "taking places" && when === "after");
test.each(slice(points, isKilledInCi))(
  "a worker killed $when $name breaks no limit and leaves no job waiting",
  async (point) => {
    const fresh = await enqueue(point);
    const { worker: doomed, release } = await startUntil(fresh, point);
    doomed.kill("SIGKILL");
    await doomed.ended;
    await fresh.sql(`insert into stint.death values ($1, clock_timestamp())`, [doomed.pid]);
    // The statement arrives after its worker has died.
    await release();

    await startWorkerProcess(fresh, rescuing);
    // In a second: the living worker looks only for leases that ran out since it last looked.
    await fresh.sql(
      `update stint.job set lease_until = clock_timestamp() + interval '1 second' where worker in (select id from stint.worker where pid = $1)`,
      [doomed.pid],
    );
    await expectAllEnded(fresh);
    expect(await fresh.sql(`select * from stint.limit_place`)).toEqual([]);
    // What is left of the dead worker goes with its row.
    await fresh.sql(`delete from stint.worker where pid = $1`, [doomed.pid]);
    await tendLimits(fresh.db, true, "test");
    expect(
      await fresh.sql(`select * from stint.limit_share where worker not in (select id from stint.worker)`),
    ).toEqual([]);
  },
);

const isPausedInCi = ({ name, when }: Point): boolean => when === "before" && name === "settling with places";
test.each(slice(points, isPausedInCi))(
  "a worker paused $when $name breaks no limit and continues",
  async (point) => {
    const fresh = await enqueue(point);
    const { worker: paused, release } = await startUntil(fresh, point);
    paused.kill("SIGSTOP");
    await startWorkerProcess(fresh, rescuing);
    // The others hold or wait for what the paused worker has.
    await until(async () => (await fresh.sql(`select from stint.job where state = 'ready'`)).length === 0, {
      message: "the other worker has taken every job that may run",
    });
    await release();
    paused.kill("SIGCONT");
    await expectAllEnded(fresh);
    expect(await fresh.sql(`select * from stint.limit_place`)).toEqual([]);
  },
);
