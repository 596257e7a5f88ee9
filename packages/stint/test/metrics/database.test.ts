import { expect, test } from "vitest";
import {
  defineJob,
  entry,
  handle,
  PermanentError,
  renderMetrics,
  renderProcessMetrics,
  typed,
} from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { parse } from "./parse.ts";

const note = defineJob("note", { queue: "notes", payload: typed<{ dies?: boolean }>() });

type Read = (name: string, labels?: Record<string, string>) => number | undefined;

function reader(text: string): Read {
  const families = parse(text);
  return (name, labels = {}) => {
    const base = name.replace(/_(?:bucket|count|sum)$/, "");
    const samples = (families.get(name) ?? families.get(base))?.samples ?? [];
    return samples.find(
      (sample) =>
        sample.name === name &&
        Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    )?.value;
  };
}

test("process and database metrics agree with what was done", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await stint.enqueueMany([
    ...Array.from({ length: 5 }, () => entry(note, {})),
    entry(note, { dies: true }),
    ...Array.from({ length: 3 }, () => entry(note, {}, { delay: "1h" })),
  ]);
  const { worker, all } = await startWorker(stint, {
    pools: { notes: 4 },
    handlers: [
      handle(note, ({ payload }) => {
        if (payload.dies === true) throw new PermanentError("no");
      }),
    ],
  });
  await until(() => all("settled").length === 6);

  const own = reader(renderProcessMetrics([worker]));
  const ofNote = { queue: "notes", kind: "note" };
  expect({
    claimed: own("stint_jobs_claimed_total", ofNote),
    completed: own("stint_jobs_completed_total", ofNote),
    attempts: own("stint_attempts_per_success_sum", ofNote),
    atOnce: own("stint_attempts_per_success_bucket", { ...ofNote, le: "1" }),
    failed: own("stint_jobs_failed_total", ofNote),
    dead: own("stint_jobs_dead_total", ofNote),
    retried: own("stint_jobs_retried_total", ofNote),
    waits: own("stint_job_wait_seconds_count", ofNote),
    runs: own("stint_job_run_seconds_count", ofNote),
    free: own("stint_worker_slots", { pool: "notes", state: "free" }),
  }).toEqual({
    claimed: 6,
    completed: 5,
    attempts: 5,
    atOnce: 5,
    failed: 1,
    dead: 1,
    retried: 0,
    waits: 6,
    runs: 6,
    free: 4,
  });

  const inspector = stint.inspector();
  try {
    const database = reader(await renderMetrics(inspector));
    expect({
      scheduled: database("stint_jobs", { ...ofNote, state: "scheduled" }),
      ready: database("stint_jobs", { ...ofNote, state: "ready" }),
      dead: database("stint_jobs", { ...ofNote, state: "dead" }),
      oldestReady: database("stint_oldest_ready_age_seconds", { queue: "notes" }),
      enqueued: database("stint_jobs_enqueued_total", ofNote),
      workers: database("stint_workers"),
      serving: database("stint_queue_workers", { queue: "notes" }),
    }).toEqual({ scheduled: 3, ready: 0, dead: 1, oldestReady: 0, enqueued: 9, workers: 1, serving: 1 });
    expect(database("stint_oldest_dead_age_seconds", { queue: "notes" })).toBeGreaterThan(0);
  } finally {
    await inspector.close();
  }
});
