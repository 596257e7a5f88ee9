/** A paused queue starts no jobs on purpose: it is shown as paused, and its age is no breach. */
import { expect, onTestFinished, test } from "vitest";
import { renderMetrics } from "#stint/telemetry/database-metrics.js";
import { freshSchema } from "../support/fresh.ts";

test("a paused queue has no forecast and no breach, and shows its reason", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const inspector = stint.inspector();
  onTestFinished(() => inspector.close());
  for (const queue of ["tenant-a", "mail"]) {
    await stint.queueSettings.set(queue, { targetAge: "1m" }, { reason: "test" });
    await fresh.sql(`select stint.enqueue('work', '{}', jsonb_build_object('queue', $1::text))`, [queue]);
  }
  await fresh.sql(`update stint.job set run_at = now() - interval '1 hour'`);
  await stint.pauses.pause({ queue: "tenant-*" }, { reason: "incident 12", for: "2h", actor: "ada" });
  // Pauses of kinds and tenants leave the queue as it is.
  await stint.pauses.pause({ kind: "mail" }, { reason: "x" });

  const health = await inspector.health();
  const [late, paused] = health.queues;
  expect(late).toMatchObject({ queue: "mail", paused: null, breachInMs: 0 });
  expect(paused).toMatchObject({
    queue: "tenant-a",
    breachInMs: null,
    drainMs: null,
    paused: { setFor: "tenant-*", pausedBy: "ada", reason: "incident 12" },
  });
  expect(paused?.oldestReadyMs).toBeGreaterThan(3_000_000);
  const { until, pausedAt } = paused?.paused ?? {};
  expect((until?.getTime() ?? 0) - (pausedAt?.getTime() ?? 0)).toBeGreaterThan(7_100_000);
  const metrics = await renderMetrics(inspector);
  expect(metrics).toMatch(/stint_queue_paused\{queue="tenant-a"\} 1/);
  expect(metrics).toMatch(/stint_queue_paused\{queue="mail"\} 0/);

  await stint.pauses.resume({ queue: "tenant-*" }, { reason: "over" });
  expect((await inspector.health()).queues).toMatchObject([
    { paused: null, breachInMs: 0 },
    { paused: null, breachInMs: 0 },
  ]);
});

test("waiting tenants of one queue are those of its ready jobs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const inspector = stint.inspector();
  onTestFinished(() => inspector.close());
  for (const [queue, tenant] of [
    ["mail", "acme"],
    ["mail", "acme"],
    ["mail", "bolt"],
    ["ocr", "bolt"],
  ] as const)
    await fresh.sql(
      `select stint.enqueue('work', '{}', jsonb_build_object('queue', $1::text, 'tenant', $2::text))`,
      [queue, tenant],
    );
  expect(await inspector.waitingTenants({ queue: "mail" })).toEqual({
    tenants: [
      { tenant: "acme", ready: 2 },
      { tenant: "bolt", ready: 1 },
    ],
    of: { count: 3, capped: false },
    fair: false,
  });
  expect(await inspector.waitingTenants({ queue: "none" })).toMatchObject({ tenants: [] });
});
