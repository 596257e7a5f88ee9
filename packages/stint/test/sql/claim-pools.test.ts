import { expect, test } from "vitest";
import type { Run } from "#stint/db/db.js";
import type { ClaimedJob } from "#stint/model/job.js";
import type { Floor, Take } from "#stint/sql/claim.js";
import { claim } from "#stint/sql/claim.js";
import { newId } from "#stint/runtime/new-id.js";
import { findReadyQueues } from "#stint/sql/ready-queues.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { add, take } from "./jobs.ts";
import { sessions } from "./sessions.ts";

const start = (queue: string, priority = 0): Floor => ({
  queue,
  priority,
  runAt: "2000-01-01T00:00:00Z",
  id: "00000000-0000-7000-8000-000000000000",
});

/** So many jobs in each of these queues, every second one of a lower priority. */
async function fill(db: Run, queues: readonly string[], each: number): Promise<void> {
  for (const queue of queues)
    await add(
      db,
      Array.from({ length: each }, (_, n) => ({ queue, priority: n % 2 })),
    );
}

/** Takes of one pool. */
function ofPool(queues: readonly string[], limit: number, share: number): Take[] {
  const pool = { limit };
  return queues.map((queue) => ({ queue, limit: share, pool }));
}

const onward = async (db: Run, takes: readonly Take[], floors: readonly Floor[]): Promise<ClaimedJob[]> =>
  await claim(
    db,
    { worker: "w1", leaseId: newId(), takes, kinds: ["work"], kindLeaseMs: {}, leaseMs: 30_000 },
    floors,
  );

function counted(jobs: readonly ClaimedJob[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { queue } of jobs) counts[queue] = (counts[queue] ?? 0) + 1;
  return counts;
}

/** How many ready jobs of each queue no other session has locked. */
async function free(fresh: Fresh): Promise<Record<string, number>> {
  const rows = await fresh.sql<{ queue: string }>(
    `select queue from stint.job where state = 'ready' for update skip locked`,
  );
  return counted(rows as unknown as ClaimedJob[]);
}

const floors = ["a", "b", "c", "d"].flatMap((queue) => [start(queue, 0), start(queue, 1)]);
const ways: Record<string, (db: Run, takes: readonly Take[]) => Promise<ClaimedJob[]>> = {
  "a sweep": async (db, takes) => await take(db, { takes }),
  "a claim onward": async (db, takes) => await onward(db, takes, floors),
};

test.each(Object.entries(ways))(
  "%s takes shares in queue order until the pool is full",
  async (_, claimBy) => {
    const { db } = await freshSchema();
    await fill(db, ["a", "b", "c"], 4);

    expect(counted(await claimBy(db, ofPool(["c", "a", "b"], 5, 2)))).toEqual({ c: 2, a: 2, b: 1 });
    expect(counted(await claimBy(db, ofPool(["b", "none", "c"], 100, 100)))).toEqual({ b: 3, c: 2 });
  },
);

test.each(Object.entries(ways))("%s of two pools applies each pool's own limit", async (_, claimBy) => {
  const { db } = await freshSchema();
  await fill(db, ["a", "b", "c", "d"], 4);
  const takes = [...ofPool(["a", "b"], 5, 4), { queue: "c", limit: 1 }, ...ofPool(["d", "none"], 2, 2)];

  expect(counted(await claimBy(db, takes))).toEqual({ a: 4, b: 1, c: 1, d: 2 });
});

test.each(Object.entries(ways))("%s locks only the rows that it takes", async (_, claimBy) => {
  const fresh = await freshSchema();
  await fill(fresh.db, ["a", "b", "c"], 4);
  const [one] = await sessions(fresh, 1);
  await one!.begin();
  const jobs = await claimBy(one!, ofPool(["a", "b", "c"], 5, 4));

  expect(counted(jobs)).toEqual({ a: 4, b: 1 });
  expect(await free(fresh)).toEqual({ b: 3, c: 4 });
  await one!.commit();
});

test.each(Object.entries(ways))("%s takes the most urgent jobs of each queue first", async (_, claimBy) => {
  const { db } = await freshSchema();
  await fill(db, ["a", "b"], 6);
  const jobs = await claimBy(db, ofPool(["a", "b"], 6, 3));

  expect(jobs.map(({ priority }) => priority)).toEqual([0, 0, 0, 0, 0, 0]);
});

test("two concurrent claims of one pool never share a job and never wait", async () => {
  const fresh = await freshSchema();
  await fill(fresh.db, ["a", "b", "c"], 4);
  const [one, other] = await sessions(fresh, 2);
  await one!.begin();
  const first = await take(one!, { takes: ofPool(["a", "b", "c"], 6, 2) });
  const second = await take(other!, { takes: ofPool(["a", "b", "c"], 6, 2) });
  await one!.commit();

  expect(new Set([...first, ...second].map(({ fence }) => fence.job)).size).toBe(12);
});

test("a search lists queues with ready jobs of its kinds and ranges, in byte order", async () => {
  const fresh = await freshSchema();
  const queues = ["Zoo", "a", "tenant-1", "tenant-10", "tenant-2", "tenant.x", "z"];
  await fill(fresh.db, queues, 2);
  await add(fresh.db, [{ queue: "tenant-3", kind: "other" }]);
  await add(fresh.db, [{ queue: "tenant-4", delay_ms: 3_600_000 }]);
  const search = async (...ranges: [first: string, until: string | null][]): Promise<unknown> =>
    await findReadyQueues(fresh.db, {
      ranges: ranges.map(([first, until]) => ({ first, until })),
      kinds: ["work"],
    });

  const tenants = ["tenant-1", "tenant-10", "tenant-2"];
  expect(await search(["", null])).toEqual({ queues, after: null });
  expect(await search(["tenant-", "tenant."])).toEqual({ queues: tenants, after: null });
  expect(await search(["a", "a\u0001"], ["tenant-1\u0001", "tenant-2"])).toEqual({
    queues: ["a", "tenant-10"],
    after: null,
  });
  expect(await search(["zz", null])).toEqual({ queues: [], after: null });
});

test("a search of more than a thousand queues returns where to continue", async () => {
  const fresh = await freshSchema();
  const queues = Array.from({ length: 1_500 }, (_, n) => `q${String(n).padStart(5, "0")}`);
  await add(
    fresh.db,
    queues.map((queue) => ({ queue })),
  );
  const kinds = ["work"];
  const first = await findReadyQueues(fresh.db, { ranges: [{ first: "q", until: "r" }], kinds });
  const rest = await findReadyQueues(fresh.db, {
    ranges: [{ first: `${first.after}\u0001`, until: "r" }],
    kinds,
  });

  expect(first).toEqual({ queues: queues.slice(0, 1_000), after: "q00999" });
  expect(rest).toEqual({ queues: queues.slice(1_000), after: null });
});

test("queues are in byte order under any database collation", async () => {
  const fresh = await freshSchema();
  const rows = await fresh.sql(
    `select c.collname
     from pg_attribute a
     join pg_collation c on c.oid = a.attcollation
     where a.attrelid = 'stint.job'::regclass and a.attname = 'queue'`,
  );

  expect(rows).toEqual([{ collname: "C" }]);
});
