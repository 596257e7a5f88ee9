import { expect, test } from "vitest";
import { createStint, defineJob, handle, typed, type QueueSettings, type Stint } from "#stint/index.js";
import { testDatabaseUrl } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";

const work = defineJob("work", { payload: typed<object>() });

/** Start a worker whose code declares these queues, and stop it. */
async function deploy(fresh: Fresh, queues: Record<string, QueueSettings>): Promise<Stint> {
  const stint = fresh.client({ queues });
  const worker = stint.worker({
    pools: { default: 1 },
    signals: false,
    handlers: [handle(work, () => undefined)],
  });
  await worker.start();
  await worker.stop();
  return stint;
}

async function targets(stint: Stint): Promise<Record<string, number | null>> {
  return Object.fromEntries(
    (await stint.queueSettings.list()).map(({ queue, targetAgeMs }) => [queue, targetAgeMs]),
  );
}

test("a starting worker writes the settings that its code declares, with an audit", async () => {
  const fresh = await freshSchema();
  const stint = await deploy(fresh, { payments: { targetAge: "30s" }, "tenant-*": { targetAge: "1m" } });

  expect(await stint.queueSettings.list()).toEqual([
    {
      queue: "payments",
      targetAgeMs: 30_000,
      declaredTargetAgeMs: 30_000,
      admission: null,
      declaredAdmission: null,
      fair: null,
      declaredFair: null,
      agingMs: null,
      declaredAgingMs: null,
      updatedAt: expect.any(Date) as Date,
      updatedBy: expect.stringMatching(/^code:/) as string,
    },
    expect.objectContaining({ queue: "tenant-*", targetAgeMs: 60_000 }),
  ]);
  expect(await stint.queueSettings.audit("payments")).toMatchObject([
    { action: "declare-queue", queue: "payments", change: { targetAgeMs: { from: null, to: 30_000 } } },
  ]);
});

test("the same declaration again writes nothing", async () => {
  const fresh = await freshSchema();
  const queues = { payments: { targetAge: "30s" } };
  const stint = await deploy(fresh, queues);
  const version = async (): Promise<unknown> =>
    await fresh.sql(`select ctid::text, xmin::text, xmax::text from stint.queue`);
  const before = await version();
  await deploy(fresh, queues);

  expect(await version()).toEqual(before);
  expect(await stint.queueSettings.audit("payments")).toHaveLength(1);
});

test("a live change stays when workers of the same code start again", async () => {
  const fresh = await freshSchema();
  const queues = { payments: { targetAge: "30s" } };
  const stint = await deploy(fresh, queues);
  await stint.queueSettings.set("payments", { targetAge: "10m" }, { reason: "a slow provider" });
  await deploy(fresh, queues);

  expect(await targets(stint)).toEqual({ payments: 600_000 });
});

test("code that declares another value replaces a live change", async () => {
  const fresh = await freshSchema();
  const stint = await deploy(fresh, { payments: { targetAge: "30s" } });
  await stint.queueSettings.set("payments", { targetAge: "10m" }, { reason: "a slow provider" });
  await deploy(fresh, { payments: { targetAge: "1m" } });

  expect(await targets(stint)).toEqual({ payments: 60_000 });
  expect((await stint.queueSettings.audit("payments"))[0]).toMatchObject({
    action: "declare-queue",
    change: { targetAgeMs: { from: 600_000, to: 60_000 } },
  });
});

test("code that declares a queue without a setting returns it to the default", async () => {
  const fresh = await freshSchema();
  const stint = await deploy(fresh, { payments: { targetAge: "30s" } });
  await deploy(fresh, { payments: {} });

  expect(await targets(stint)).toEqual({ payments: null });
});

test("queues that code does not declare are left alone", async () => {
  const fresh = await freshSchema();
  const stint = await deploy(fresh, { payments: { targetAge: "30s" } });
  await deploy(fresh, { mail: { targetAge: "1h" } });

  expect(await targets(stint)).toEqual({ mail: 3_600_000, payments: 30_000 });
});

test("many workers that start at once with one declaration audit it once", async () => {
  const fresh = await freshSchema();
  const queues = Object.fromEntries(
    ["payments", "mail", "*", "tenant-*"].map((name) => [name, { targetAge: "30s" }]),
  );
  const [stint] = await Promise.all(Array.from({ length: 6 }, () => deploy(fresh, queues)));

  for (const name of Object.keys(queues)) expect(await stint!.queueSettings.audit(name)).toHaveLength(1);
});

test("a worker without declarations sends no statement that writes queue settings", async () => {
  const fresh = await freshSchema();
  await fresh.sql(`
    create function stint.refuse() returns trigger language plpgsql as $$ begin raise exception 'written'; end $$;
    create trigger refuse before insert or update or delete on stint.queue for each statement execute function stint.refuse()`);
  await expect(deploy(fresh, {})).resolves.toBeDefined();
});

test.each([
  ["a name that is none", { "no name": {} }, /createStint\.queues: must be 1 to 128 characters/],
  ["an empty name", { "": {} }, /createStint\.queues: must be 1 to 128 characters/],
  ["a double star", { "a**": {} }, /must not contain \*\*/],
  [
    "a misspelt setting",
    { mail: { targetAeg: "1s" } },
    /queues\.mail\.targetAeg: .*did you mean "targetAge"/,
  ],
  ["a negative age", { mail: { targetAge: -1 } }, /queues\.mail\.targetAge: must be a duration/],
  ["an age of zero", { mail: { targetAge: 0 } }, /queues\.mail\.targetAge: must be at least 1 ms/],
  ["NaN", { mail: { targetAge: Number.NaN } }, /queues\.mail\.targetAge: must be a duration/],
  ["a huge age", { mail: { targetAge: "40000d" } }, /queues\.mail\.targetAge: must be at most/],
  ["settings that are no object", { mail: "30s" }, /queues\.mail: must be an object of options/],
  ["an array", ["mail"], /createStint\.queues: must be an object/],
])("a declaration with %s is refused", (_, queues, rule) => {
  const create = (): Stint =>
    createStint({ database: testDatabaseUrl(), queues: queues as unknown as Record<string, QueueSettings> });
  expect(create).toThrow(rule);
});
