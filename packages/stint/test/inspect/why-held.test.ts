/** Why a job waits, on a real installation: a paused tenant, a full limit, a blocked order, admission, expiry. */
import { expect, onTestFinished, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const charge = defineJob("charge", {
  payload: typed<{ account: string }>(),
  limits: [{ name: "account", key: ({ account }) => account, max: 1 }],
});
const apply = defineJob("apply", {
  payload: typed<{ account: string }>(),
  attempts: 1,
  order: { key: ({ account }) => account },
});

const work = defineJob("work", { payload: typed<object>() });

function reasonsOf(fresh: Fresh) {
  const inspector = fresh.client().inspector();
  onTestFinished(() => inspector.close());
  return async (id: string): Promise<string> => {
    const { summary, findings } = (await inspector.why(id)) ?? { summary: "none", findings: [] };
    return [summary, ...findings.map(({ text, advice }) => `${text} ${advice ?? ""}`)].join("\n");
  };
}

test("why names the pause of a tenant, the full key with its holder, and the dead head", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [charge, apply] });
  const why = reasonsOf(fresh);
  await stint.pauses.pause({ tenant: "acme" }, { reason: "incident 12", actor: "ada", for: "2h" });
  const held = gate();
  await startWorker(stint, {
    handlers: [
      handle(charge, async () => await held.opened),
      handle(apply, () => {
        throw new Error("refused");
      }),
    ],
  });
  const holder = await stint.enqueue(charge, { account: "42" });
  await until(async () => (await stint.get(holder.id))?.state === "running", { message: "the first runs" });
  const waits = await stint.enqueue(charge, { account: "42" });
  const paused = await stint.enqueue(charge, { account: "7" }, { tenant: "acme" });
  const head = await stint.enqueue(apply, { account: "1" });
  const behind = await stint.enqueue(apply, { account: "1" });
  const isParked = async (id: string): Promise<boolean> => (await stint.get(id))?.state === "parked";
  await until(async () => (await isParked(waits.id)) && (await isParked(paused.id)), {
    message: "both are parked",
  });
  await until(async () => (await stint.get(head.id))?.state === "dead", { message: "the head is dead" });

  expect(await why(paused.id)).toMatch(
    /Its tenant is paused \(acme\) since .* by ada, for another .*: incident 12[^]*resume tenant acme/,
  );
  const full = await why(waits.id);
  expect(full).toContain("It waits for a place of key:account=42: 1 of 1 are in use.");
  expect(full).toContain(`Job ${holder.id} holds a place: running.`);
  expect(await why(behind.id)).toMatch(
    new RegExp(`its turn of order:apply=1: another job has it[^]*Job ${head.id} is dead[^]*limits pass`),
  );
  held.open();
});

test("why shows when a job expires, and that its queue defers new jobs when full", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ jobs: [work] });
  const why = reasonsOf(fresh);
  await stint.queueSettings.set(
    "default",
    { admission: { maxDepth: 1, policy: "defer", deferBy: "1h" } },
    { reason: "test" },
  );
  await stint.enqueue(work, {});
  await fresh.sql(`delete from stint.admission_sample`);
  const later = await stint.enqueue(work, {}, { expiresIn: "1d" });
  const text = await why(later.id);
  expect(text).toMatch(/scheduled until/);
  expect(text).toContain("Queue default defers new jobs while it is full (admission of default)");
  expect(text).toMatch(/It expires in /);
});
