import { expect, test } from "vitest";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import { pruneSmall } from "#stint/sql/prune.js";
import { jsonOf, stintOn } from "../cli/support.ts";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { startWorker } from "../support/watch.ts";

const wait = defineJob("wait", { payload: typed<{ end: "soon" | "never" }>() });
const day = 86_400_000;

test("each stop is kept with its drain time and what became of its jobs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const inspector = stint.inspector();
  const end = gate();
  const { worker, seen, all } = await startWorker(stint, {
    pools: { default: 2 },
    handlers: [
      handle(wait, async ({ payload }) => await (payload.end === "soon" ? end.opened : gate().opened)),
    ],
  });
  await stint.enqueueMany([entry(wait, { end: "soon" }), entry(wait, { end: "never" })]);
  await seen("began", () => all("began").length === 2);
  const stopping = worker.stop({ drain: "60s", abort: 0 });
  end.open();
  await seen("settled");
  const [first] = await Promise.all([stopping, worker.stop()]);

  const [stop, ...others] = await inspector.stops();
  expect(others).toEqual([]);
  expect(stop).toMatchObject({ worker: worker.id, drained: 1, released: 1 });
  expect(stop!.ms).toBeGreaterThan(0);
  expect(stop!.ms).toBeLessThanOrEqual(Math.ceil(first.ms));
  expect(stop!.stoppedAt >= stop!.startedAt).toBe(true);
  expect(await inspector.workers()).toEqual([]);

  const run = stintOn(fresh);
  expect((await run("workers")).stdout).toMatch(
    /^STOPPED +WORKER +DRAINED IN +ENDED +RELEASED +VERSION\n.*ago/m,
  );
  expect(jsonOf(await run("workers", "--json"))).toMatchObject({
    workers: [],
    stops: [{ drained: 1, released: 1 }],
  });

  await pruneSmall(fresh.db, { doneMs: day, auditMs: day }, 100);
  expect(await inspector.stops()).toHaveLength(1);
  await fresh.sql("update stint.worker_stop set stopped_at = now() - interval '2 days'");
  await pruneSmall(fresh.db, { doneMs: day, auditMs: day }, 100);
  expect(await inspector.stops()).toEqual([]);
  await inspector.close();
});
