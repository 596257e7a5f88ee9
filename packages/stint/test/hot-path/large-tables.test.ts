import { afterAll, beforeAll, expect, test } from "vitest";
import { claim, type Floor } from "#stint/sql/claim.js";
import { promote } from "#stint/sql/promote.js";
import { findReadyQueues } from "#stint/sql/ready-queues.js";
import { succeed } from "#stint/sql/succeed.js";
import { newId } from "#stint/runtime/new-id.js";
import { idleCheck } from "../support/idle-check.ts";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";
import { hotFaults } from "../sql/hot-statements.ts";
import { tooManyPages } from "../telemetry/large.ts";
import { fillOneQueue } from "../support/fill-jobs.ts";
import { inLab } from "../support/lab.ts";
import { touched } from "./touched.ts";

let server: OwnServer;
beforeAll(async () => {
  server = await ownServer({
    autovacuum: "off",
    full_page_writes: "off",
    wal_level: "minimal",
    max_wal_senders: "0",
    max_wal_size: "8GB",
    shared_buffers: "512MB",
    maintenance_work_mem: "256MB",
    // A plan that is compiled is not counted otherwise, only slower to make.
    jit: "off",
  });
});
afterAll(async () => {
  await server.remove();
});

const claimInput = {
  worker: "w",
  leaseId: newId(),
  takes: [{ queue: "a", limit: 10 }],
  kinds: ["work"],
  kindLeaseMs: {},
  leaseMs: 30_000,
};

/** Jobs that are ready. A scan of thousands is seen as well as that of a million. */
const ready = inLab ? 1_000_000 : 12_000;

test("on large tables hot statements use their index, and views read few pages", async () => {
  const fresh = await freshSchema(server.url);
  const client = await adminClient(fresh.url);
  const faults: Record<string, string[]> = {};
  await fresh.sql(`vacuum analyze stint.job`);
  await fillOneQueue(fresh, ready);

  faults["where statistics say there are none"] = await hotFaults(client, fresh.schema);
  await fresh.sql(`vacuum analyze stint.job`);
  faults["with statistics"] = await hotFaults(client, fresh.schema);

  const [behind] = await fresh.sql<{ at: string; id: string }>(
    `select run_at::text as at, id from stint.job where state = 'ready' and queue = 'a' and priority = 0
     order by run_at, id offset 10000 limit 1`,
  );
  const floors: Floor[] = [{ queue: "a", priority: 0, runAt: behind!.at, id: behind!.id }];
  const since = new Date().toISOString();
  const pool = { limit: 10 };
  const shared = {
    ...claimInput,
    takes: ["none", "a", "b", "c"].map((queue) => ({ queue, limit: 10, pool })),
  };
  const ranges = [{ first: "a", until: "b\u0001" }];
  const costs = {
    claim: await touched(client, fresh.schema, (db) => claim(db, claimInput)),
    claimPools: await touched(client, fresh.schema, (db) => claim(db, shared)),
    findReadyQueues: await touched(client, fresh.schema, (db) =>
      findReadyQueues(db, { ranges, kinds: ["work"] }),
    ),
    onward: await touched(client, fresh.schema, (db) => claim(db, claimInput, floors)),
    idleCheck: await touched(client, fresh.schema, (db) =>
      idleCheck(db, { queues: ["a", "b"], kinds: ["work"], since }),
    ),
    promote: await touched(client, fresh.schema, (db) => promote(db, 1_000)),
  };

  const looks = await tooManyPages(fresh, client);

  await fresh.sql(`delete from stint.job`);
  faults["just drained"] = await hotFaults(client, fresh.schema);
  await fresh.sql(`vacuum analyze stint.job`);
  faults["drained and vacuumed"] = await hotFaults(client, fresh.schema);
  await client.end();

  expect(faults).toEqual({
    "where statistics say there are none": [],
    "with statistics": [],
    "just drained": [],
    "drained and vacuumed": [],
  });
  expect(looks).toEqual([]);
  const pages = expect.any(Number) as number;
  expect(costs).toEqual({
    claim: { pages, rows: 10, removed: 0 },
    claimPools: { pages, rows: 10, removed: 0 },
    // The queue, and that it has a job of the kind; behind it there is none.
    findReadyQueues: { pages, rows: 2, removed: 1 },
    onward: { pages, rows: 10, removed: 0 },
    // The head of the queue, the next that is due, the first lease that runs out, the last fold.
    idleCheck: { pages, rows: 4, removed: 0 },
    // Those that are due, and the next.
    promote: { pages, rows: 11, removed: 0 },
  });
  // Four or five levels of index to find the first. A row that changes is found, locked, read again and written, and its new
  // version is put into two or three indexes by way of three or four levels: fifteen pages.
  expect(costs.claim.pages).toBeLessThanOrEqual(10 + 10 * 20);
  expect(costs.claimPools.pages).toBeLessThanOrEqual(4 * 10 + 10 * 20);
  expect(costs.findReadyQueues.pages).toBeLessThanOrEqual(3 * 5);
  expect(costs.onward.pages).toBeLessThanOrEqual(10 + 10 * 20);
  expect(costs.promote.pages).toBeLessThanOrEqual(10 + 10 * 20);
  // And one page of the index of queues with settings, for admission and for claim orders: that index is empty here.
  expect(costs.idleCheck.pages).toBeLessThanOrEqual(4 * 5 + 2);
}, 180_000);

/** Runs this many jobs as a fast worker would, and returns its floor. */
async function drain(fresh: Fresh, jobs: number): Promise<Floor> {
  let floors: Floor[] | undefined;
  for (let done = 0; done < jobs;) {
    const input = { ...claimInput, leaseId: newId(), takes: [{ queue: "a", limit: 1_000 }] };
    const taken = await claim(fresh.db, input, floors);
    const last = taken.at(-1)!;
    floors = [{ queue: "a", priority: 0, runAt: last.runAt, id: last.fence.job }];
    await succeed(
      fresh.db,
      taken.map(({ fence }) => fence),
    );
    done += taken.length;
  }
  return floors![0]!;
}

test("behind a forgotten transaction a claim from the floor reads few pages", async () => {
  const fresh = await freshSchema(server.url);
  const [client, forgotten] = [await adminClient(fresh.url), await adminClient(fresh.url)];
  const jobs = inLab ? 50_000 : 4_000;
  await fresh.sql(
    `insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
     select gen_random_uuid(), 'work', 'a', 'ready', now() + n * interval '1 us', now(), '{}'
     from generate_series(1, $1::integer) n`,
    [jobs + 100],
  );
  await forgotten.query("begin isolation level repeatable read");
  await forgotten.query("select 1");
  const floor = await drain(fresh, jobs);

  const onward = await touched(client, fresh.schema, (db) => claim(db, claimInput, [floor]));
  const sweep = await touched(client, fresh.schema, (db) => claim(db, claimInput));
  await forgotten.query("rollback");
  for (const session of [client, forgotten]) await session.end();

  expect(onward).toMatchObject({ rows: 10, removed: 0 });
  expect(onward.pages).toBeLessThanOrEqual(10 + 10 * 20);
  // All pages of the table and of the index that the drained jobs are in. There are more than sixty rows on none of them.
  expect(sweep.pages).toBeGreaterThan(jobs / 60);
});
