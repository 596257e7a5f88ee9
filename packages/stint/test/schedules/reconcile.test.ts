import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import {
  defineJob,
  defineSchedule,
  handle,
  InvalidOptionError,
  InvalidPayloadError,
  ScheduleConflictError,
  type ScheduleDefinition,
  type StandardSchema,
  type Stint,
} from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { audit } from "./support.ts";

const region = { region: "eu" };
const nightly = defineSchedule("nightly", {
  cron: "0 3 * * *",
  zone: "Europe/Berlin",
  job: audit,
  payload: region,
});
const hourly = defineSchedule("hourly", { every: "1h", job: audit, payload: region });

/** Start a worker of this service, and stop it. */
async function deploy(fresh: Fresh, owner: string, schedules: readonly ScheduleDefinition[]): Promise<Stint> {
  const stint = fresh.client();
  const worker = stint.worker({
    pools: { default: 1 },
    handlers: [handle(audit, () => undefined)],
    signals: false,
    owner,
    schedules,
  });
  await worker.start();
  await worker.stop();
  return stint;
}

async function names(stint: Stint): Promise<string[]> {
  return (await stint.schedules.list()).schedules.map(({ name, owner }) => `${owner}/${name}`);
}

const rows = async (fresh: Fresh): Promise<unknown> =>
  await fresh.sql("select ctid::text, xmin::text, name from stint.schedule order by name");

test("a deploy adds, changes and removes the schedules of its owner", async () => {
  const fresh = await freshSchema();
  const stint = await deploy(fresh, "billing", [nightly, hourly]);
  expect(await names(stint)).toEqual(["billing/hourly", "billing/nightly"]);
  const before = await stint.schedules.get("nightly");

  const later = defineSchedule("nightly", {
    cron: "30 4 * * *",
    zone: "Europe/Berlin",
    job: audit,
    payload: region,
  });
  await deploy(fresh, "billing", [later]);
  expect(await names(stint)).toEqual(["billing/nightly"]);
  const after = await stint.schedules.get("nightly");
  expect(after).toMatchObject({ cron: "30 4 * * *", state: "active" });
  expect(after?.nextSlot?.getUTCMinutes()).toBe(30);
  expect(after?.nextSlot).not.toEqual(before?.nextSlot);
  expect((await stint.schedules.audit("hourly")).map(({ action }) => action)).toEqual([
    "remove-schedule",
    "declare-schedule",
  ]);

  await deploy(fresh, "billing", []);
  expect(await names(stint)).toEqual([]);
});

test("a deploy of the same schedules writes nothing", async () => {
  const fresh = await freshSchema();
  await deploy(fresh, "billing", [nightly, hourly]);
  const before = await rows(fresh);
  await deploy(fresh, "billing", [hourly, nightly]);

  expect(await rows(fresh)).toEqual(before);
});

test("two services never touch each other's schedules, nor those made at run time", async () => {
  const fresh = await freshSchema();
  const stint = await deploy(fresh, "billing", [nightly]);
  await stint.schedules.set("user:7", { every: "1d", job: audit, payload: region });
  await deploy(fresh, "reports", [hourly]);
  await deploy(fresh, "reports", []);

  expect(await names(stint)).toEqual(["billing/nightly", "null/user:7"]);
});

test("a name that another service declares is refused, and the deploy changes nothing", async () => {
  const fresh = await freshSchema();
  const stint = await deploy(fresh, "billing", [nightly]);
  const before = await rows(fresh);

  const refused = await deploy(fresh, "reports", [hourly, nightly]).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(ScheduleConflictError);
  expect((refused as Error).message).toContain('schedule "nightly" belongs to the code of "billing"');
  const overwritten = stint.schedules.set("nightly", { every: "1d", job: audit, payload: region });
  await expect(overwritten).rejects.toBeInstanceOf(ScheduleConflictError);
  await expect(stint.schedules.remove("nightly")).rejects.toBeInstanceOf(ScheduleConflictError);
  expect(await rows(fresh)).toEqual(before);
});

test("a pause of a person outlives the next deploys, also one that changes the pattern", async () => {
  const fresh = await freshSchema();
  const stint = await deploy(fresh, "billing", [nightly]);
  await stint.schedules.pause("nightly", { actor: "ada", reason: "incident 12" });
  await deploy(fresh, "billing", [nightly]);
  await deploy(fresh, "billing", [
    defineSchedule("nightly", { cron: "5 5 * * *", job: audit, payload: region }),
  ]);
  expect(await stint.schedules.get("nightly")).toMatchObject({
    state: "paused",
    nextSlot: null,
    cron: "5 5 * * *",
  });

  await stint.schedules.resume("nightly");
  await deploy(fresh, "billing", [
    defineSchedule("nightly", { cron: "5 5 * * *", job: audit, payload: region }),
  ]);
  expect(await stint.schedules.get("nightly")).toMatchObject({ state: "active" });
  expect(
    (await stint.schedules.audit("nightly")).map(({ action, actor, reason }) => [action, actor, reason]),
  ).toEqual([
    ["resume-schedule", "app", null],
    ["declare-schedule", expect.stringMatching(/^code:/), null],
    ["pause-schedule", "ada", "incident 12"],
    ["declare-schedule", expect.stringMatching(/^code:/), null],
  ]);
});

test("a changed payload keeps the pending slot; a changed pattern replaces it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const slot = async (): Promise<unknown> => (await stint.schedules.get("daily"))?.nextSlot;
  await stint.schedules.set("daily", { cron: "0 0 * * *", job: audit, payload: { region: "eu" } });
  const first = await slot();
  await stint.schedules.set("daily", { cron: "0 0 * * *", job: audit, payload: { region: "us" } });
  expect(await slot()).toEqual(first);
  expect(await stint.schedules.get("daily")).toMatchObject({ payload: { region: "us" } });
  await stint.schedules.set("daily", { cron: "1 0 * * *", job: audit, payload: { region: "us" } });
  expect(await slot()).not.toEqual(first);
});

test("a change that waits for another one leaves no slot of the other's pattern", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const daily = { cron: "0 0 * * *", job: audit, payload: { region: "eu" } };
  const before = await stint.schedules.set("daily", daily);
  const tx = new Client({ connectionString: fresh.url });
  await tx.connect();
  onTestFinished(() => tx.end());
  await tx.query("begin");
  const [{ pid }] = (await tx.query<{ pid: number }>("select pg_backend_pid() as pid")).rows as [
    { pid: number },
  ];
  await stint.in(tx).schedules.set("daily", { ...daily, cron: "30 12 * * *" });

  const second = stint.schedules.set("daily", { ...daily, payload: { region: "us" } });
  await until(
    async () =>
      (await fresh.sql("select from pg_stat_activity a where $1 = any (pg_blocking_pids(a.pid))", [pid]))
        .length > 0,
    { message: "the second change waits for the first" },
  );
  await tx.query("commit");
  expect(await second).toMatchObject({
    cron: daily.cron,
    nextSlot: before.nextSlot,
    payload: { region: "us" },
  });
});

test("worker options for schedules are checked before anything is written", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const worker = (options: object): unknown =>
    stint.worker({ pools: { default: 1 }, handlers: [handle(audit, () => undefined)], ...options });

  expect(() => worker({ schedules: [nightly] })).toThrow(/worker\.owner: is required/);
  expect(() => worker({ owner: "billing" })).toThrow(/worker\.schedules: must be an array/);
  expect(() => worker({ owner: "billing", schedules: [{ name: "x" }] })).toThrow(/made by defineSchedule/);
  expect(() => worker({ owner: "billing", schedules: [nightly, nightly] })).toThrow(/"nightly" twice/);
  expect(() => worker({ owner: "", schedules: [nightly] })).toThrow(InvalidOptionError);
});

test("a payload that its kind refuses fails the deploy, and nothing is written", async () => {
  const fresh = await freshSchema();
  const strict: StandardSchema<string, string> = {
    "~standard": {
      version: 1,
      vendor: "test",
      validate: (value) => (value === "ok" ? { value } : { issues: [{ message: "must be ok" }] }),
    },
  };
  const picky = defineJob("picky", { payload: strict });
  const deployed = deploy(fresh, "billing", [
    nightly,
    defineSchedule("wrong", { every: "1h", job: picky, payload: "no" }),
  ]);

  await expect(deployed).rejects.toBeInstanceOf(InvalidPayloadError);
  expect(await rows(fresh)).toEqual([]);
});
