import { afterAll, beforeAll, expect, test } from "vitest";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { inLab } from "../support/lab.ts";
import { countedServer, type CountedServer, type Sent } from "./counted-server.ts";
import { planFaults } from "./plan-faults.ts";
import { written, type Written } from "./written.ts";

/** Enough for claims of full size. */
const jobs = inLab ? 20_000 : 6_000;
type Text = { text: string };
const work = defineJob("work", { payload: typed<Text>() });
const limited = defineJob("limited", {
  payload: typed<Text>(),
  limits: [{ max: 10_000 }, { key: () => "a", max: 10_000 }],
});

let server: CountedServer;
beforeAll(async () => {
  server = await countedServer();
});
afterAll(async () => {
  await server.remove();
});

type Drain = { seconds: number; sent: Sent; written: Written };

/** One worker, as it comes, runs jobs that do nothing until there are no more. */
async function drain(fresh: Fresh, job = work): Promise<Drain> {
  const payload = { text: "x".repeat(88) };
  await fresh.client().enqueueMany(Array.from({ length: jobs }, () => entry(job, payload)));

  const worker = fresh.client({ database: await server.urlAs(job.kind) }).worker({
    pools: { default: 10 },
    signals: false,
    // A stall of the machine releases nothing that waits for a slot.
    prefetch: "1h",
    handlers: [handle(job, async () => undefined)],
  });
  const drained = gate();
  let settled = 0;
  worker.on("settled", () => {
    settled += 1;
    if (settled === jobs) drained.open();
  });
  const from = await server.position();
  const startedAt = performance.now();
  await worker.start();
  await drained.opened;
  await worker.stop();
  const seconds = (performance.now() - startedAt) / 1000;
  const to = await server.position();
  return { seconds, sent: await server.sentBy(job.kind), written: await written(fresh, from, to) };
}

/** What a worker sends whether or not there are jobs, and at most how often in the first second. Quick jobs cost no renewal. */
const besides = {
  // Once for each connection.
  settings: 4,
  "schema-version": 1,
  "register-kinds": 1,
  "register-worker": 1,
  "stop-worker": 1,
  listen: 1,
  heartbeat: 3,
  "idle-check": 3,
  promote: 3,
  rescue: 2,
  // Once it listens, it checks the jobs it holds: an earlier cancel was not notified. Once more for those that were being settled at that moment.
  renew: 2,
  "claim-quarantined": 2,
  "reserve-quarantined": 2,
  unserved: 1,
  "forget-unresponsive-workers": 1,
  "make-partitions": 1,
  "drop-partitions": 1,
  "prune-dead": 1,
  "prune-rest": 1,
  "prune-windows": 1,
  "prune-flows": 1,
  "prune-audit": 1,
  "prune-series": 1,
  "prune-steps": 1,
  "roll-up": 1,
  // Every ten seconds, and at the end.
  flush: 1,
  fold: 1,
};

test("a drained job costs few statements, three rows and three index entries, no sort", async () => {
  const fresh = await freshSchema(server.url);
  const { seconds, sent, written: wrote } = await drain(fresh);
  const { claim, "claim-onward": onward, succeed, ...others } = sent;
  const claims = (claim?.calls ?? 0) + (onward?.calls ?? 0);

  // A claim brings 500, or what this worker ends in 50 ms where that is less: a slow machine may need more claims, but has the time
  // for them. The first few are small, until it is known how quick the worker is.
  expect(claims).toBeLessThanOrEqual(20 + jobs / 500 + 20 * seconds);
  // What one claim brought is settled in three statements at most: two that go at once, and one with all that gathered
  // meanwhile.
  expect(succeed?.calls).toBeLessThanOrEqual(3 * claims);

  const tooOften = Object.entries(others).filter(([name, { calls }]) => {
    const most = besides[name.split(" ")[0] as keyof typeof besides];
    return most === undefined || calls > most + seconds;
  });
  expect(tooOften).toEqual([]);

  // Enqueued, a job was a row and two entries. Claimed, it is a new version of that row, with entries among the ids and the
  // leases; ended, the row goes and history has one, with one entry.
  const claimed = (claim?.rows ?? 0) + (onward?.rows ?? 0);
  const { "job LOCK": locks = 0, ...rows } = ofJobs(wrote);
  // A worker that begins to listen renews what it holds at that moment.
  const renewed = (rows["job UPDATE"] ?? 0) - claimed;
  expect(renewed).toBeGreaterThanOrEqual(0);
  expect(renewed).toBeLessThanOrEqual(sent["renew"]?.rows ?? 0);
  expect(rows).toEqual({
    "job UPDATE": claimed + renewed,
    "job_pkey entry": claimed + renewed,
    "job_lease entry": claimed + renewed,
    "job DELETE": jobs,
    "history INSERT": jobs,
    "history_id_idx entry": jobs,
  });
  expect(claimed).toBe(jobs);
  // All jobs are of one kind: each settle statement writes one tally row, and a claim none.
  expect(wrote["tally_delta INSERT"]).toBe(succeed?.calls);
  // One to pick a row, and one more where its new version finds no room on the page and goes to another.
  expect(locks).toBeLessThanOrEqual(2 * (claimed + renewed));

  expect(planFaults(await server.plansOf("work"))).toEqual([]);
});

test("under a limit with room to spare, a drained job costs the same rows", async () => {
  const fresh = await freshSchema(server.url);
  const { seconds, sent, written: wrote } = await drain(fresh, limited);
  const named = (names: RegExp): number =>
    Object.entries(sent).reduce((sum, [name, { calls }]) => sum + (names.test(name) ? calls : 0), 0);
  const claims = named(/^claim/);

  expect(claims).toBeLessThanOrEqual(20 + jobs / 500 + 20 * seconds);
  expect(named(/^succeed/)).toBeLessThanOrEqual(3 * claims);
  // The first claim finds no shares, and takes them. Later claims confirm them in their own statement.
  expect(named(/^take-share/)).toBe(2);
  expect(named(/^(?:take-places|open-shares)/)).toBeLessThanOrEqual(3);
  const { "job UPDATE": updates = 0, "history INSERT": ended, "limit_place INSERT": places } = wrote;
  expect(ended).toBe(jobs);
  expect(updates).toBeLessThanOrEqual(jobs + (sent["renew"]?.rows ?? 0));
  expect(places).toBeUndefined();
});

/** Without the rows that stand for the worker, its kinds and what they count. */
function ofJobs(wrote: Written): Written {
  return Object.fromEntries(
    Object.entries(wrote).filter(([what]) => !/^(?:worker|kind|tally|series)/.test(what)),
  );
}
