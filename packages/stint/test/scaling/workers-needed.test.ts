import { expect, test } from "vitest";
import { freshSchema, type Fresh } from "../support/fresh.ts";

const reason = "maintenance";

async function needed(fresh: Fresh, ...pools: { queues: string[]; slots: number }[]): Promise<number> {
  const [row] = await fresh.sql<{ n: number }>(
    `select stint.workers_needed($1::jsonb, interval '100 seconds') as n`,
    [JSON.stringify(pools)],
  );
  return row!.n;
}

/** Jobs of a kind that take a second each, as many as given. */
async function ready(fresh: Fresh, count: number, options: Record<string, unknown>): Promise<void> {
  const { kind = "note", ...more } = options;
  await fresh.sql(
    `select stint.enqueue_many(
       (select jsonb_agg(jsonb_build_object('kind', $1::text, 'payload', n, 'options', $2::jsonb)) from generate_series(1, $3) n))`,
    [kind, JSON.stringify(more), count],
  );
}

async function arrivals(fresh: Fresh, queue: string, kind: string, perS: number): Promise<void> {
  await fresh.sql(`select stint.record_series($1::jsonb)`, [
    JSON.stringify([{ queue, kind, arrived: perS * 600, run: [10], run_ms: 10_000 }]),
  ]);
}

test("a paused queue or kind needs no workers, and needs them again after resume", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await ready(fresh, 200, { queue: "notes" });
  await arrivals(fresh, "notes", "note", 3);
  const notes = { queues: ["notes"], slots: 1 };
  expect(await needed(fresh, notes)).toBe(5);

  for (const [scope, name] of [
    ["queue", "notes"],
    ["queue", "no*"],
    ["kind", "note"],
  ] as const) {
    await stint.pauses.pause({ [scope]: name } as { queue: string }, { reason });
    expect(await needed(fresh, notes)).toBe(0);
    await stint.pauses.resume({ [scope]: name } as { queue: string }, { reason });
    expect(await needed(fresh, notes)).toBe(5);
  }
});

test("a pause that has ended by itself counts no more", async () => {
  const fresh = await freshSchema();
  await ready(fresh, 200, { queue: "notes" });
  await fresh.sql(
    `insert into stint.pause (scope, name, reason, paused_by, until) values ('queue', 'notes', 'x', 'x', now() - interval '1 s')`,
  );
  expect(await needed(fresh, { queues: ["notes"], slots: 1 })).toBe(2);
});

test("a queue or a kind at its limit needs no more workers than the limit", async () => {
  const fresh = await freshSchema();
  await ready(fresh, 2_000, { queue: "notes" });
  await ready(fresh, 1_000, { queue: "notes", kind: "other" });
  const notes = { queues: ["notes"], slots: 1 };
  expect(await needed(fresh, notes)).toBe(30);

  await fresh.sql(`select stint.set_limit('kind:note', 5, 'x')`);
  expect(await needed(fresh, notes)).toBe(15);
  await fresh.sql(`select stint.set_limit('queue:notes', 3, 'x')`);
  expect(await needed(fresh, notes)).toBe(3);
  expect(await needed(fresh, { queues: ["notes"], slots: 2 })).toBe(2);
  await fresh.sql(`select stint.set_limit('queue:notes', null, 'x'), stint.set_limit('kind:note', 500, 'x')`);
  expect(await needed(fresh, notes)).toBe(30);
});

test("jobs that wait for a full key of a limit need no workers", async () => {
  const fresh = await freshSchema();
  await arrivals(fresh, "notes", "note", 50);
  const notes = { queues: ["notes"], slots: 1 };
  expect(await needed(fresh, notes)).toBe(50);
  await ready(fresh, 1, { queue: "notes" });
  await fresh.sql(
    `with held as (
       update stint.job set state = 'parked', park_reason = 'limit' returning id, run_at
     ), counted as (
       insert into stint.tally_delta (queue, kind, priority, parked) select 'notes', 'note', 0, 1
     )
     insert into stint.limit_place (job_id, key, holds, run_at) select id, 'key:account=7', false, run_at from held`,
  );
  expect(await needed(fresh, notes)).toBe(0);
});

test("jobs claimed ahead of a free slot are not counted as busy slots", async () => {
  const fresh = await freshSchema();
  await ready(fresh, 500, { queue: "notes" });
  await fresh.sql(
    `update stint.job set state = 'running', lease_id = id, lease_until = now() + interval '1 minute'`,
  );
  const notes = { queues: ["notes"], slots: 10 };
  expect(await needed(fresh, notes)).toBe(50);
  await fresh.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds) values ('w', 'h', 1, '1', '{"no*": 10}', '{note}')`,
  );
  // Ten are busy; 490 seconds of work within 100 seconds are five more slots.
  expect(await needed(fresh, notes)).toBe(2);
});

test("the number of needed workers is never null", async () => {
  const fresh = await freshSchema();
  const [row] = await fresh.sql<Record<string, number>>(
    `select stint.workers_needed('[]') as none, stint.workers_needed(null) as nothing,
       stint.workers_needed('[{"queues": ["a"], "slots": 0}]') as zero, stint.workers_needed('[{"queues": [], "slots": 1}]', '0') as empty,
       stint.workers_needed('[{"queues": ["*"], "slots": 1}]', interval '-1 day') as negative`,
  );
  expect(row).toEqual({ none: 0, nothing: 0, zero: 0, empty: 0, negative: 0 });
  await ready(fresh, 5, { queue: "a" });
  expect(await needed(fresh, { queues: ["a"], slots: 0 })).toBe(0);
});

test("pools that cannot work are refused with their form", async () => {
  const fresh = await freshSchema();
  for (const pools of [{}, "a", [null], [{ queues: ["a"] }], [{ queues: "a", slots: 1 }], [{ slots: 1 }]])
    await expect(needed(fresh, pools as never)).rejects.toThrow(/must be (an array of )?\{"queues": \["…"\]/);
  for (const slots of [-1, 1.5, "1", null])
    await expect(needed(fresh, { queues: ["a"], slots: slots as number })).rejects.toThrow(
      "each of pools must be",
    );
  await expect(needed(fresh, { queues: [null as never], slots: 1 })).rejects.toMatchObject({ code: "22023" });
});
