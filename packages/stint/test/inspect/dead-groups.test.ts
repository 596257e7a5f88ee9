import { expect, test } from "vitest";
import { defineJob, handle, PermanentError, typed } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { jobsOf, operationsOf } from "./inspectors.ts";

const mail = defineJob("mail", { payload: typed<{ to: string }>(), attempts: 1 });

/** A dead job with this reason, that died so many minutes ago. */
async function died(fresh: Fresh, kind: string, reason: string | null, minutes = 0, log: unknown = null) {
  const [row] = await fresh.sql<{ id: string }>(
    `insert into stint.history (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions,
       epoch, run, payload, reason, log)
     values (gen_random_uuid(), $1, $4, 'dead', 0, now(), now(), now() - $3 * interval '1 minute', 1, 0, 0, 1, 1, '{}', $2, $5)
     returning id`,
    [kind, reason, minutes, kind === "ocr" ? "scans" : "default", log === null ? null : JSON.stringify(log)],
  );
  return row!.id;
}

test("dead jobs of one kind and error are one group, whatever numbers the error has", async () => {
  const fresh = await freshSchema();
  await died(fresh, "mail", "failed 3 of 3 attempts: Error: no payment 17", 9);
  await died(fresh, "mail", "failed 5 of 5 attempts: Error: no payment 4711", 5);
  const newest = await died(fresh, "mail", "Error: no payment 19", 2);
  await died(fresh, "ocr", "Error: no payment 3", 1);
  await died(fresh, "ocr", "Error: torn page", 7);
  const jobs = jobsOf(fresh);

  const { groups, others, of } = await jobs.deadGroups();

  expect(groups.map(({ kind, error, count }) => [kind, error, count])).toEqual([
    ["mail", "Error: no payment …", 3],
    ["ocr", "Error: no payment …", 1],
    ["ocr", "Error: torn page", 1],
  ]);
  expect(groups[0]).toMatchObject({ example: newest });
  // A replay of one group must not include the other.
  const { jobs: found } = await jobs.jobs({ fingerprint: groups[0]!.fingerprint });
  expect(found.map(({ kind }) => kind)).toEqual(["mail", "mail", "mail"]);
  expect(groups[0]!.newest.getTime() - groups[0]!.oldest.getTime()).toBeCloseTo(7 * 60_000, -4);
  expect([others, of]).toEqual([0, { count: 5, capped: false }]);
  expect((await jobs.deadGroups({ queue: "scans" })).groups).toHaveLength(2);
  expect((await jobs.deadGroups({ kind: "oc*" })).groups).toHaveLength(2);
  expect(await jobs.deadGroups({ kind: "nothing" })).toEqual({ groups: [], others: 0, of });
  await expect(jobs.deadGroups({ state: "dead" } as object)).rejects.toThrow(/deadGroups\.state/);
});

const alike: Record<string, [string, string]> = {
  uuids: ["no user 019a8a2c-1f00-7000-8000-0123456789ab", "no user d1dddddd-aaaa-bbbb-cccc-eeeeeeeeeeee"],
  ids: ["no such customer: cus_Nffrq9aBx2", "no such customer: cus_8sH2kkLpQ0"],
  addresses: ["connect ECONNREFUSED 10.1.2.3:5432", "connect ECONNREFUSED 127.0.0.1:80"],
  dates: ["expired at 2026-11-15T21:17:39.123Z", "expired at 2027-01-01T00:00:00.001Z"],
  "cut off": [
    `no payment 1 for ${"the customer ".repeat(50)}`.slice(0, 300),
    `no payment 5f4dcc3b5aa765d61d8327deb882cf99 for ${"the customer ".repeat(50)}`.slice(0, 300),
  ],
  "numbers in names": ["422 nothing to read on blank-85.jpg", "422 nothing to read on blank-425.jpg"],
  "chapters behind a status": ["404 no such chapter 17", "404 no such chapter 18"],
  "numbers that look like a status": ["404 no such chapter 417", "404 no such chapter 503"],
  "the same with a class": ["NotFound: 404 no such chapter 417", "NotFound: 404 no such chapter 5"],
  "no status at all": ["no such chapter 417", "no such chapter 12"],
  "long numbers": ["no row 4041 of 12", "no row 404123 of 503999"],
  counted: ["row17 of p_3", "row4 of p_2000"],
};
const apart: Record<string, [string, string]> = {
  failures: ["HTTP 404: no such bank", "HTTP 410: no such bank"],
  beginnings: ["404 no such chapter 17", "500 no such chapter 17"],
  "behind a class": ["BankError: 404 gone", "BankError: 503 gone"],
  named: ["failed with status code 404", "failed with status code 500"],
  assigned: ["refused (status=404)", "refused (status=503)"],
  versions: ["HTTP/1.1 404 Not Found", "HTTP/1.1 410 Not Found"],
  ends: ["the bank said 404", "the bank said 503"],
  brackets: ["refused (404), gone", "refused (403), gone"],
  sentences: ["It was a 500. Again", "It was a 502. Again"],
  words: ["no bank", "no purse"],
  classes: ["TypeError: boom", "RangeError: boom"],
};

test("values that vary by job do not split a group; other text does", async () => {
  const fresh = await freshSchema();
  for (const [kind, reasons] of Object.entries({ ...alike, ...apart }))
    for (const reason of reasons) await died(fresh, kind, reason);
  const { groups } = await jobsOf(fresh).deadGroups();
  const sizes = (kind: string): number[] =>
    groups.filter((one) => one.kind === kind).map(({ count }) => count);

  for (const kind of Object.keys(alike)) expect([kind, sizes(kind)]).toEqual([kind, [2]]);
  for (const kind of Object.keys(apart)) expect([kind, sizes(kind)]).toEqual([kind, [1, 1]]);
  expect(groups.map(({ error }) => error)).toEqual(
    expect.arrayContaining([
      "HTTP 404: no such bank",
      "404 no such chapter …",
      "the bank said 404",
      "refused (403), gone",
      "It was a 500. Again",
      "no such customer: cus_…",
      "expired at …",
      "… of p_…",
    ]),
  );
});

test("a group is named by the reason, else by the last error, else as unknown", async () => {
  const fresh = await freshSchema();
  await died(fresh, "mail", null, 2, [
    { epoch: 1, error: { class: "Error", message: "first" } },
    { epoch: 2, error: { class: "TypeError", message: "no name 5" } },
    { epoch: 3 },
  ]);
  await died(fresh, "mail", null, 1);
  const { groups } = await jobsOf(fresh).deadGroups();
  expect(groups.map(({ error }) => error)).toEqual(["no reason was kept", "TypeError: no name …"]);

  // One that lives has no reason either, and has not died of it.
  await fresh.client().enqueue(mail, { to: "ann" });
  const { jobs } = await jobsOf(fresh).jobs({ fingerprint: groups[0]!.fingerprint });
  expect(jobs.map(({ state }) => state)).toEqual(["dead"]);
});

test("beyond a hundred groups the rest is a count", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `insert into stint.history (id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions,
       epoch, run, payload, reason)
     select gen_random_uuid(), 'kind-' || n % 130, 'q', 'dead', 0, now(), now(), now(), 1, 0, 0, 1, 1, '{}', 'Error: boom'
     from generate_series(1, 260) n`,
  );
  const { groups, others } = await jobsOf(fresh).deadGroups();
  expect([groups.length, others]).toEqual([100, 60]);
});

test("a group is a filter: exactly its jobs are listed, counted and replayed", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { all, worker } = await startWorker(stint, {
    handlers: [
      handle(mail, ({ payload: { to } }) => {
        throw to === "nobody" ? new PermanentError("no address") : new Error(`server ${to} is away`);
      }),
    ],
  });
  for (const to of ["17", "18", "nobody"]) await stint.enqueue(mail, { to });
  await until(() => all("settled").length === 3);
  await worker.stop();
  const jobs = jobsOf(fresh);
  const [away, none] = (await jobs.deadGroups()).groups;
  expect([away, none]).toMatchObject([
    { error: "Error: server … is away", count: 2 },
    { error: "PermanentError: no address", count: 1 },
  ]);

  const filter = { state: "dead", kind: "mail", fingerprint: away!.fingerprint } as const;
  expect((await jobs.jobs(filter)).jobs.map(({ reason }) => reason)).toEqual([
    "failed 1 of 1 attempts: Error: server 18 is away",
    "failed 1 of 1 attempts: Error: server 17 is away",
  ]);
  expect(await jobs.count(filter)).toEqual({ count: 2, capped: false });
  expect((await jobs.jobs({ key: "none", fingerprint: away!.fingerprint })).jobs).toEqual([]);
  await expect(jobs.jobs({ fingerprint: "mail" })).rejects.toThrow(
    /jobs\.fingerprint: must be the fingerprint of a group/,
  );

  const operations = operationsOf(fresh);
  const { id } = await operations.begin("replay", filter, { reason: "it is back", actor: "ann" });
  const ended = await until(async () => {
    const now = await operations.operation(id);
    return now?.state === "running" ? undefined : now;
  });
  expect(ended).toMatchObject({ state: "finished", done: 2, skipped: 0, filter });
  expect((await jobs.deadGroups()).groups).toMatchObject([{ fingerprint: none!.fingerprint }]);
});
