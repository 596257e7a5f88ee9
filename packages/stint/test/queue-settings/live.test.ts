import { expect, test } from "vitest";
import { newId } from "#stint/runtime/new-id.js";
import { setQueue } from "#stint/sql/queue-settings.js";
import type { QueueChange, Stint } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { adminClient } from "../support/database.ts";
import { forSchema } from "#stint/db/statement.js";

const reason = "a busy night";

test("a live change takes effect at the next read of an open inspector", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await fresh.sql(`select stint.enqueue('work', '{}', '{"queue": "payments"}')`);
  const inspector = stint.inspector();
  const look = async (): Promise<unknown> => {
    const [queue] = (await inspector.health()).queues;
    return [queue?.targetMs, queue?.targetFrom.source];
  };
  expect(await look()).toEqual([300_000, "default"]);
  await stint.queueSettings.set("payments", { targetAge: "30s" }, { reason });

  expect(await look()).toEqual([30_000, "live"]);
});

test("a change returns the new setting and is audited with actor, reason and values", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.queueSettings.set("payments", { targetAge: 5_000 }, { reason });
  const now = await stint.queueSettings.set(
    "payments",
    { targetAge: "30s" },
    { reason: "calmer", actor: "ann" },
  );

  expect(now).toMatchObject({ queue: "payments", targetAgeMs: 30_000, updatedBy: "ann" });
  expect(await stint.queueSettings.audit("payments")).toMatchObject([
    {
      actor: "ann",
      action: "set-queue",
      reason: "calmer",
      change: { targetAgeMs: { from: 5_000, to: 30_000 } },
    },
    { actor: "app", action: "set-queue", reason, change: { targetAgeMs: { from: null, to: 5_000 } } },
  ]);
});

test("null returns a setting to the declared value", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await fresh.sql(
    `insert into stint.queue (name, target_age_ms, declared_target_age_ms, updated_by) values ('payments', 1, 9000, 'x')`,
  );
  expect(await stint.queueSettings.set("payments", { targetAge: null }, { reason })).toMatchObject({
    targetAgeMs: 9_000,
  });
});

test("forgetting deletes the settings and returns whether there were any", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.queueSettings.set("old", { targetAge: "30s" }, { reason });

  expect(await stint.queueSettings.forget("old", { reason: "gone" })).toBe(true);
  expect(await stint.queueSettings.forget("old", { reason: "gone" })).toBe(false);
  expect(await stint.queueSettings.list()).toEqual([]);
  expect((await stint.queueSettings.audit("old"))[0]).toMatchObject({
    action: "forget-queue",
    reason: "gone",
    change: { targetAgeMs: { from: 30_000, to: null } },
  });
});

test("of concurrent changes the last one wins, and each audit has the replaced value", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ connections: 8 });
  const ages = Array.from({ length: 12 }, (_, n) => 1_000 * (n + 1));
  await Promise.all(
    ages.map((targetAge) =>
      stint.queueSettings.set("payments", { targetAge }, { reason: `to ${targetAge}` }),
    ),
  );
  const [setting] = await stint.queueSettings.list();
  const audit = await stint.queueSettings.audit("payments");
  const [from, to] = (["from", "to"] as const).map((end) =>
    audit.map(({ change }) => change["targetAgeMs"]?.[end]),
  );

  expect(new Set(to)).toEqual(new Set(ages));
  // One chain: the value in force is the only one that no other change replaced.
  expect(to?.filter((value) => !from?.includes(value))).toEqual([setting?.targetAgeMs]);
  expect(from?.filter((value) => value === null)).toHaveLength(1);
});

test("a repeat of a change after its result was lost does not undo a later change", async () => {
  const fresh = await freshSchema();
  const audit = { auditId: newId(), actor: "ann", reason };
  await setQueue(fresh.db, "payments", { targetAge: 1_000 }, audit);
  await setQueue(fresh.db, "payments", { targetAge: 2_000 }, { ...audit, auditId: newId() });
  const repeated = await setQueue(fresh.db, "payments", { targetAge: 1_000 }, audit);

  expect(repeated.targetAgeMs).toBe(2_000);
  expect(await fresh.sql(`select from stint.audit`)).toHaveLength(2);
});

test("a change that waits for another transaction sees the value that this one commits", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const client = await adminClient();
  await client.query("begin");
  await client.query(
    forSchema(`select stint.set_queue('payments', '{"targetAge": "1s"}', 'first')`, fresh.schema),
  );
  const second = stint.queueSettings.set("payments", { targetAge: "2s" }, { reason: "second" });
  await client.query("commit");
  await client.end();

  expect((await second).targetAgeMs).toBe(2_000);
  expect((await stint.queueSettings.audit("payments"))[0]?.change).toEqual({
    targetAgeMs: { from: 1_000, to: 2_000 },
  });
});

test.each<[string, (stint: Stint) => Promise<unknown>, RegExp]>([
  [
    "a bad name",
    (s) => s.queueSettings.set("no name", { targetAge: "1s" }, { reason }),
    /set\(queue\): must be/,
  ],
  ["an empty name", (s) => s.queueSettings.set("", { targetAge: "1s" }, { reason }), /set\(queue\): must be/],
  ["no setting", (s) => s.queueSettings.set("mail", {}, { reason }), /names no setting/],
  [
    "a misspelt setting",
    (s) => s.queueSettings.set("mail", { targetAeg: "1s" } as QueueChange, { reason }),
    /targetAeg: .*did you mean "targetAge"/,
  ],
  ["a negative age", (s) => s.queueSettings.set("mail", { targetAge: -5 }, { reason }), /must be a duration/],
  ["NaN", (s) => s.queueSettings.set("mail", { targetAge: Number.NaN }, { reason }), /must be a duration/],
  ["infinity", (s) => s.queueSettings.set("mail", { targetAge: Infinity }, { reason }), /must be a duration/],
  ["a huge age", (s) => s.queueSettings.set("mail", { targetAge: "99999d" }, { reason }), /must be at most/],
  ["zero", (s) => s.queueSettings.set("mail", { targetAge: "0.4ms" }, { reason }), /must be at least 1 ms/],
  [
    "no reason",
    (s) => s.queueSettings.set("mail", { targetAge: 1 }, {} as { reason: string }),
    /reason: is required/,
  ],
  [
    "no options",
    (s) => s.queueSettings.set("mail", { targetAge: 1 }, undefined as unknown as { reason: string }),
    /reason: is required/,
  ],
  [
    "an empty reason",
    (s) => s.queueSettings.set("mail", { targetAge: 1 }, { reason: "" }),
    /must not be empty/,
  ],
  ["an escape", (s) => s.queueSettings.set("mail", { targetAge: 1 }, { reason: "\u001b[2J" }), /control/],
  [
    "no reason to forget",
    (s) => s.queueSettings.forget("mail", {} as { reason: string }),
    /reason: is required/,
  ],
])("a change with %s is refused, and nothing is written", async (_, change, rule) => {
  const fresh = await freshSchema();
  await expect(change(fresh.client())).rejects.toThrow(rule);
  expect(await written(fresh)).toEqual([0, 0]);
});

async function written(fresh: Fresh): Promise<number[]> {
  return [
    (await fresh.sql(`select from stint.queue`)).length,
    (await fresh.sql(`select from stint.audit`)).length,
  ];
}

test("SQL changes a setting: by default the actor is the role of the session", async () => {
  const fresh = await freshSchema();
  await fresh.sql(`select stint.set_queue('payments', '{"targetAge": "1h30m"}', 'a busy night')`);
  const [entry] = await fresh.client().queueSettings.audit("payments");

  expect(await fresh.client().queueSettings.list()).toMatchObject([
    { queue: "payments", targetAgeMs: 5_400_000 },
  ]);
  expect(entry?.actor).toMatch(/^sql:./);
});

test.each([
  [`'no name', '{"targetAge": 1}', 'r'`, /queue 'no name': must be a name or a pattern/],
  [`null, '{"targetAge": 1}', 'r'`, /queue null: must be a name/],
  [`'a**', '{"targetAge": 1}', 'r'`, /must be a name or a pattern/],
  [`repeat('a', 129), '{"targetAge": 1}', 'r'`, /must be a name or a pattern/],
  [`'mail', '{}', 'r'`, /settings must be a JSON object/],
  [`'mail', null, 'r'`, /settings must be a JSON object/],
  [`'mail', '[1]', 'r'`, /settings must be a JSON object/],
  [`'mail', '{"targetAeg": 1}', 'r'`, /queue "mail": unknown setting "targetAeg"/],
  [`'mail', '{"targetAge": 0}', 'r'`, /targetAge must be a length of time/],
  [`'mail', '{"targetAge": -1}', 'r'`, /targetAge must be a length of time/],
  [`'mail', '{"targetAge": "NaN"}', 'r'`, /targetAge must be a length of time/],
  [`'mail', '{"targetAge": "5m5m"}', 'r'`, /targetAge must be a length of time/],
  [`'mail', '{"targetAge": 1e300}', 'r'`, /targetAge must be a length of time/],
  [`'mail', '{"targetAge": {}}', 'r'`, /targetAge must be a length of time/],
  [`'mail', '{"targetAge": 1}', null`, /reason must be a text/],
  [`'mail', '{"targetAge": 1}', ''`, /reason must be a text/],
  [`'mail', '{"targetAge": 1}', 'r', ''`, /actor must be a text/],
])("stint.set_queue(%s) is refused with 22023", async (args, message) => {
  const fresh = await freshSchema();
  const refused = await fresh.sql(`select stint.set_queue(${args})`).catch((error: unknown) => error);

  expect(refused).toMatchObject({ code: "22023", message: expect.stringMatching(message) as string });
  expect(await written(fresh)).toEqual([0, 0]);
});

test("an invalid row is refused by the table itself", async () => {
  const fresh = await freshSchema();
  for (const values of [`('no name', 1)`, `('a', 0)`, `('a', -1)`, `('a', 3153600000001)`])
    await expect(
      fresh.sql(
        `insert into stint.queue (name, target_age_ms, updated_by) select v.*, 'x' from (values ${values}) v`,
      ),
    ).rejects.toMatchObject({ code: "23514" });
});

test("workers_needed uses the target of each queue, unless it is given one", async () => {
  const fresh = await freshSchema();
  await fresh.sql(
    `select stint.enqueue(
       'work', '{}', jsonb_build_object('queue', case when n <= 60 then 'fast' else 'tenant-' || n % 2 end))
     from generate_series(1, 660) n`,
  );
  const needed = async (target: string | null = null): Promise<unknown> => {
    const pools = JSON.stringify([
      { queues: ["fast"], slots: 1 },
      { queues: ["tenant-*"], slots: 100 },
    ]);
    return (
      await fresh.sql<{ n: number }>(`select stint.workers_needed($1, $2::interval) as n`, [pools, target])
    )[0]?.n;
  };
  // A second of work each: 60 jobs in the default of five minutes, 600 jobs on 100 slots.
  expect(await needed()).toBe(1);
  await fresh.client().queueSettings.set("fast", { targetAge: "10s" }, { reason });
  expect(await needed()).toBe(6);
  await fresh.client().queueSettings.set("tenant-*", { targetAge: 500 }, { reason });
  expect(await needed()).toBe(12);
  await fresh.client().queueSettings.set("tenant-1", { targetAge: "5m" }, { reason });
  expect(await needed()).toBe(7);
  expect(await needed("30 s")).toBe(2);
});
