import { expect, test } from "vitest";
import { defineJob, entry, handle, PermanentError, typed } from "#stint/index.js";
import { arrivals } from "#stint/sql/arrivals.js";
import { fold, recount } from "#stint/sql/tallies.js";
import { freshSchema } from "../support/fresh.ts";
import { startWorker } from "../support/watch.ts";
import { inLab } from "../support/lab.ts";

const note = defineJob("note", { queue: "notes", payload: typed<{ dies?: boolean }>() });

test("arrivals only grow, through folds, recounts and emptied queues", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const counted = async (): Promise<unknown> =>
    (await arrivals(fresh.db)).map(({ queue, kind, count }) => [queue, kind, count]);
  expect(await counted()).toEqual([]);

  await stint.enqueueMany(Array.from({ length: 5 }, () => entry(note, {})));
  const dead = await stint.enqueue(note, { dies: true }, { priority: 3 });
  await fresh.sql(`select stint.enqueue('by-hand', '{}', '{"queue": "notes"}')`);
  const seven = [
    ["notes", "by-hand", 1],
    ["notes", "note", 6],
  ];
  expect(await counted()).toEqual(seven);
  await fold(fresh.db, 0);
  expect(await counted()).toEqual(seven);
  // What has not been folded is not lost either.
  await stint.enqueue(note, {});
  await recount(fresh.db);
  const eight = [seven[0], ["notes", "note", 7]];
  expect(await counted()).toEqual(eight);

  let dies = true;
  const { seen, all, worker } = await startWorker(stint, {
    pools: { notes: 4 },
    handlers: [
      handle(note, ({ payload }) => {
        if (payload.dies === true && dies) throw new PermanentError("no");
      }),
    ],
  });
  await seen("settled", () => all("settled").length === 7);
  dies = false;
  await stint.replay(dead.id, { reason: "fixed" });
  await seen("settled", ({ id, state }) => id === dead.id && state === "succeeded");
  await worker.stop();
  const nine = [seven[0], ["notes", "note", 8]];
  expect(await counted()).toEqual(nine);
  for (let folds = 0; folds < 3; folds += 1) await fold(fresh.db, 0);
  await recount(fresh.db);
  expect(await counted()).toEqual(nine);
});

test.runIf(inLab)("names that come and go do not stay in the sums", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const rows = async (): Promise<number> => {
    const [row] = await fresh.sql<{ n: number }>(`select count(*)::integer as n from stint.tally`);
    return row!.n;
  };
  /** The deltas of an enqueue, or of an end, of one job in each of this many queues. */
  const say = async (round: number, live: number): Promise<void> => {
    await fresh.sql(
      `insert into stint.tally_delta (queue, kind, priority, live)
       select format('of-%s-%s', $1::integer, n), 'note', 0, $2 from generate_series(1, 1100) n`,
      [round, live],
    );
    await fold(fresh.db, 0);
  };
  await stint.enqueue(note, {});
  for (let round = 0; round < 10; round += 1) {
    await say(round, 1);
    await say(round, -1);
  }

  // The last rounds' are there until the sums are brought together again; those of all ten would be twice as many.
  expect(await rows()).toBeLessThan(8 * 1_100);
  const left = (await arrivals(fresh.db)).find(({ queue }) => queue === "notes");
  expect(left).toEqual({ queue: "notes", kind: "note", count: 1 });
});

test("no priority of a kind in use is dropped, so its counter never falls", async () => {
  const fresh = await freshSchema();
  const say = async (rows: string): Promise<void> => {
    await fresh.sql(`insert into stint.tally_delta (queue, kind, priority, live) ${rows}`);
    await fold(fresh.db, 0);
  };
  const came = async (queue: string): Promise<number | undefined> =>
    (await arrivals(fresh.db)).find((one) => one.queue === queue)?.count;
  /** Other names come and go, until the sums have been brought together twice. */
  const pass = async (round: number): Promise<void> => {
    for (const live of [1, -1, 1, -1, 1, -1])
      await say(`select format('of-%s-%s', ${round}, n), 'note', 0, ${live} from generate_series(1, 1100) n`);
  };
  await say("values ('notes', 'note', 0, 50), ('notes', 'note', 3, 1), ('gone', 'note', 0, 7)");
  await say("values ('notes', 'note', 0, -50), ('gone', 'note', 0, -7)");
  for (let round = 0; round < 4; round += 1) await pass(round);

  // A job of another priority waits; of the other queue nothing is left, and it is forgotten as a whole.
  expect(await came("notes")).toBe(51);
  expect(await came("gone")).toBeUndefined();
});

test("workers_needed follows running jobs, arrivals and ready jobs", async () => {
  const fresh = await freshSchema();
  const needed = async (slots: number, target = "100 seconds"): Promise<number> => {
    const [row] = await fresh.sql<{ n: number }>(`select stint.workers_needed($1, $2::interval) as n`, [
      JSON.stringify([
        { queues: ["notes", "mails"], slots },
        { queues: ["other"], slots: 1 },
      ]),
      target,
    ]);
    return row!.n;
  };
  expect(await needed(2)).toBe(0);

  const stint = fresh.client();
  await stint.enqueueMany(Array.from({ length: 200 }, () => entry(note, {})));
  // Taken for a second each: two slots for 100 s.
  expect(await needed(1)).toBe(2);
  expect(await needed(2)).toBe(1);
  expect(await needed(2, "10 seconds")).toBe(10);
  // They turn out to take ten seconds each.
  await fresh.sql(
    `select stint.record_series('[{"queue": "notes", "kind": "note", "run": [0, 5], "run_ms": 50000}]')`,
  );
  expect(await needed(1)).toBe(20);
  // One a second arrives of another kind, and takes two.
  await fresh.sql(
    `select stint.record_series('[{"queue": "mails", "kind": "mail", "arrived": 600, "run": [10], "run_ms": 20000}]')`,
  );
  expect(await needed(1)).toBe(22);
  // What runs needs its slot, however little arrives.
  const { worker, seen, all } = await startWorker(stint, {
    pools: { notes: 30 },
    abort: 0,
    handlers: [
      handle(
        note,
        async ({ signal }) => await new Promise((resolve) => signal.addEventListener("abort", resolve)),
      ),
    ],
  });
  await seen("began", () => all("began").length === 30);
  expect(await needed(1)).toBe(30 + 17 + 2);
  await worker.stop({ drain: 0, abort: 0 });
});
