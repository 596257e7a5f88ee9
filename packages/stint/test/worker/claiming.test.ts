import { expect, test } from "vitest";
import { defineJob, handle, silentLogger, steps, typed } from "#stint/index.js";
import { LeaseLostError } from "#stint/index.js";
import { presence } from "#stint/upkeep/presence.js";
import type { Unserved } from "#stint/sql/kinds.js";
import { finish } from "#stint/sql/finish.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { gate } from "../support/gate.ts";
import { startWorker } from "../support/watch.ts";

const served = defineJob("served", { payload: typed<{ name: string }>() });
const foreign = defineJob("foreign", { payload: typed<{ name: string }>() });

test("a worker claims only the kinds it serves", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const waiting = await stint.enqueue(foreign, { name: "first in line" });
  await startWorker(stint, { handlers: [handle(served, () => undefined)] });
  await stint.waitFor(await stint.enqueue(served, { name: "behind it" }), { timeout: "60s" });

  expect(await stint.get(waiting.id)).toMatchObject({ state: "ready", epoch: 0 });
});

test("a warning names waiting jobs that no worker serves", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { worker } = await startWorker(stint, { handlers: [handle(served, () => undefined)] });
  await stint.enqueue(foreign, { name: "forgotten" });
  await stint.enqueue(served, { name: "served" }, { delay: "1h" });
  await fresh.sql("update stint.job set run_at = now() - interval '1 minute' where kind = 'foreign'");
  const warnings: (readonly Unserved[])[] = [];
  const [live] = await stint.workers();
  const { service } = presence.create({
    db: fresh.db,
    logger: silentLogger,
    worker: live!,
    saveState: async () => await Promise.resolve(true),
    onUnserved: (kinds) => void warnings.push(kinds),
  });
  service.start();
  // At its second tick, so that workers that start together have registered.
  service.wakeIn(0);
  await until(() => warnings.length > 0, { message: "the warning comes" });
  await service.stop();

  expect(worker.id).toBe(live!.id);
  expect(warnings[0]).toEqual([{ kind: "foreign", queue: "default", oldest: expect.any(Date) }]);
});

test("jobs run by priority, then by run time, then by id", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const at = (seconds: number): { runAt: Date } => ({
    runAt: new Date(Date.now() - 3_600_000 + seconds * 1_000),
  });
  await stint.enqueue(served, { name: "late" }, at(20));
  await stint.enqueue(served, { name: "early" }, at(10));
  await stint.enqueue(served, { name: "unimportant" }, { ...at(0), priority: 5 });
  await stint.enqueue(served, { name: "urgent" }, { ...at(30), priority: -5 });
  const same = at(15);
  await stint.enqueue(served, { name: "twin 1" }, same);
  await stint.enqueue(served, { name: "twin 2" }, same);
  const order: string[] = [];
  await startWorker(stint, {
    pools: { default: 1 },
    handlers: [handle(served, ({ payload }) => void order.push(payload.name))],
  });
  await until(() => order.length === 6, { message: "all have run" });

  expect(order).toEqual(["urgent", "early", "twin 1", "twin 2", "late", "unimportant"]);
});

test("a delayed job runs when it is due, or at once after runNow", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ranAt = new Map<string, number>();
  await startWorker(stint, { handlers: [handle(served, ({ id }) => void ranAt.set(id, Date.now()))] });
  const soon = await stint.enqueue(served, { name: "soon" }, { delay: 300 });
  const far = await stint.enqueue(served, { name: "far" }, { delay: "10h" });
  expect(await stint.get(far.id)).toMatchObject({ state: "scheduled" });
  await stint.waitFor(soon, { timeout: "60s" });
  await stint.runNow(far.id);
  await stint.waitFor(far, { timeout: "60s" });

  expect(ranAt.get(soon.id)).toBeGreaterThanOrEqual((await stint.get(soon.id))!.runAt.getTime());
});

test("a replayed job has fresh attempts, and a stale attempt cannot settle it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const job = defineJob("job", { payload: typed<object>(), attempts: 2, backoff: steps(0) });
  const zombie = gate();
  const fences: { job: string; epoch: number; leaseId: string }[] = [];
  const late = gate<unknown>();
  const { seen } = await startWorker(stint, {
    abort: 10,
    timeout: 50,
    handlers: [
      handle(job, async ({ run, attempt, fence, complete }) => {
        fences.push(fence);
        if (run === 2) return;
        if (attempt === 1) {
          await zombie.opened;
          await complete(() => undefined).catch(late.open);
        }
        throw new Error("broken");
      }),
    ],
  });
  const { id } = await stint.enqueue(job, {});
  await seen("settled", ({ state }) => state === "dead");
  await stint.replay(id, { reason: "fixed" });
  await stint.waitFor(id, { timeout: "60s" });

  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, epoch: 3, run: 2 });
  zombie.open();
  expect(await late.opened).toBeInstanceOf(LeaseLostError);
  const writes = fences
    .slice(0, 2)
    .map((fence) => ({ fence, state: "dead" as const, result: null, reason: "zombie", ending: null }));
  expect(await finish(fresh.db, writes)).toEqual(new Set());
});
