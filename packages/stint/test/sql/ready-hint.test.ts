import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import { claim } from "#stint/sql/claim.js";
import { finish } from "#stint/sql/finish.js";
import { placesFor } from "#stint/sql/take-places.js";
import { readReadyHint } from "#stint/worker/ready-hint.js";
import { adminClient } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const note = defineJob("note", { queue: "notes", payload: typed<object>() });

/** Idle workers with the tags 000001 and so on. */
async function idleWorkers(fresh: Fresh, count: number, pools = `{"notes": 1}`): Promise<string[]> {
  const rows = await fresh.sql<{ tag: string }>(
    `insert into stint.worker (id, host, pid, version, pools, kinds, listening)
     select 'h-1-' || lpad(n::text, 6, '0'), 'h', 1, '1', $2::jsonb, '{note}', true from generate_series(1, $1) n
     returning right(id, 6) as tag`,
    [count, pools],
  );
  return rows.map(({ tag }) => tag);
}

async function hintFor(fresh: Fresh, jobs: number, queue = "notes"): Promise<string> {
  const [row] = await fresh.sql<{ hint: string }>("select stint.ready_hint($1, $2) as hint", [queue, jobs]);
  return row?.hint ?? "";
}

/** How many of these workers claim at once, and how many look later. */
function woken(hint: string, tags: readonly string[]): { now: number; later: number } {
  const all = tags.map((tag) => readReadyHint(hint, tag));
  return {
    now: all.filter((one) => one?.inMs === 0).length,
    later: all.filter((one) => (one?.inMs ?? 0) > 0).length,
  };
}

test("one job wakes two of fifty idle workers; two more look later", async () => {
  const fresh = await freshSchema();
  const tags = await idleWorkers(fresh, 50);
  const listener = await adminClient(fresh.url);
  const received: string[] = [];
  listener.on("notification", ({ payload }) => received.push(payload ?? ""));
  await listener.query(`listen "stint:${fresh.schema}"`);
  // By each way: SQL, a new job, a job with a dedupe key, and a wake after the commit.
  await fresh.sql(`select stint.enqueue('note', '{}', '{"queue": "notes"}')`);
  const stint = fresh.client();
  await stint.enqueue(note, {});
  await stint.enqueue(note, {}, { dedupe: { key: "x" } });
  for (let n = 0; n < 20; n++) void stint.enqueue(note, {});
  await stint.close();
  await listener.query("select 1");
  await listener.end();

  expect(received.length).toBeGreaterThan(3);
  for (const hint of received.slice(0, 3)) expect(woken(hint, tags)).toEqual({ now: 2, later: 2 });
  expect(new Set(received.map((hint) => hint.split(":")[1]))).toEqual(new Set(["notes"]));
});

test("freed places wake as many workers as jobs were let in", async () => {
  const fresh = await freshSchema();
  const tags = await idleWorkers(fresh, 50);
  const limited = defineJob("note", { queue: "notes", payload: typed<object>(), limits: [{ max: 2 }] });
  const stint = fresh.client();
  await stint.limits.set("kind:note", 2, { reason: "test" });
  await stint.enqueueMany(Array.from({ length: 10 }, () => entry(limited, {})));
  const running = await claim(fresh.db, {
    worker: "w",
    leaseId: randomUUID(),
    takes: [{ queue: "notes", limit: 10 }],
    kinds: ["note"],
    kindLeaseMs: {},
    leaseMs: 3_600_000,
  });
  const fences = running.map(({ fence }) => fence);
  const placed = await placesFor(fresh.db, fences);
  const ends = fences.filter(({ job }) => placed.get(job) === "taken");
  expect(ends).toHaveLength(2);

  const listener = await adminClient(fresh.url);
  const received: string[] = [];
  listener.on("notification", ({ payload }) => received.push(payload ?? ""));
  await listener.query(`listen "stint:${fresh.schema}"`);
  const state = "succeeded" as const;
  await finish(
    fresh.db,
    ends.map((fence) => ({ fence, state, result: null, reason: null, ending: null })),
  );
  await fresh.sql(
    `select stint.wake(array['ready:notes', 'ready:notes', 'ready:notes', 'limits', 'limits'])`,
  );
  await listener.query("select 1");
  await listener.end();

  expect(received.map((hint) => hint.replace(/^ready.*:/, "ready:")).sort()).toEqual([
    "limits",
    "ready:notes",
    "ready:notes",
  ]);
  const [letIn, given] = received.filter((hint) => hint.startsWith("ready"));
  expect(woken(letIn!, tags)).toEqual({ now: 3, later: 2 });
  expect(woken(given!, tags)).toEqual({ now: 4, later: 2 });
});

test("a wake is for as many workers as there are jobs, and for all where few are idle", async () => {
  const fresh = await freshSchema();
  const tags = await idleWorkers(fresh, 30);
  expect(woken(await hintFor(fresh, 5), tags)).toEqual({ now: 6, later: 2 });
  expect(await hintFor(fresh, 21)).toBe("ready:notes");
  expect(await hintFor(fresh, 1_000)).toBe("ready:notes");
  await fresh.sql("delete from stint.worker where id > 'h-1-000004'");
  expect(await hintFor(fresh, 1)).toBe("ready:notes");
});

test("workers take turns, and those asleep, busy, dead or elsewhere are left out", async () => {
  const fresh = await freshSchema();
  await idleWorkers(fresh, 12);
  await fresh.sql(`
    update stint.worker
    set listening = id <> 'h-1-000001', asleep = id = 'h-1-000002', pools = case id when 'h-1-000003' then '{"mail": 1}' else pools end,
      seen_at = case id when 'h-1-000004' then now() - interval '2 minutes' when 'h-1-000005' then now() + interval '1 hour' else seen_at end`);
  const seen = new Set<string>();
  for (let n = 0; n < 200; n++) {
    const [names = ""] = (await hintFor(fresh, 1)).slice("ready/".length).split(":");
    const [first = "", later = ""] = names.split("|");
    for (const tag of first.split(",")) seen.add(tag);
    // The one with the latest heartbeat looks later, unless it was woken.
    expect(first.includes("000005") || later.startsWith("000005,")).toBe(true);
    // All workers that are awake may have died at once.
    expect(later.split(",")).toHaveLength(3);
    expect(later.endsWith(",000002")).toBe(true);
  }
  expect([...seen].sort()).toEqual([5, 6, 7, 8, 9, 10, 11, 12].map((n) => String(n).padStart(6, "0")));
});

test("workers of different kinds are all woken; patterns serve their queues", async () => {
  const fresh = await freshSchema();
  const tags = await idleWorkers(fresh, 10, `{"tenant-*": 1}`);
  expect(woken(await hintFor(fresh, 1, "tenant-7"), tags)).toEqual({ now: 2, later: 2 });
  await fresh.sql("update stint.worker set kinds = '{note,mail}' where id = 'h-1-000001'");
  expect(await hintFor(fresh, 1, "tenant-7")).toBe("ready:tenant-7");
});

test("a job whose woken workers are dead is started by another worker", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { seen } = await startWorker(stint, {
    pools: { notes: 1 },
    handlers: [handle(note, () => undefined)],
  });
  await until(async () => (await fresh.sql("select from stint.worker where listening")).length === 1);
  await idleWorkers(fresh, 20);
  const [row] = await fresh.sql<{ id: string }>(
    `select stint.enqueue('note', '{}', '{"queue": "notes"}') as id`,
  );
  await seen("settled");
  expect(await stint.get(row?.id ?? "")).toMatchObject({ state: "succeeded", attempts: 1 });
});
