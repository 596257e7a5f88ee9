import { onTestFinished } from "vitest";
import { defineJob, handle, typed, type Stint, type Worker, type WorkerOptions } from "#stint/index.js";
import type { Fresh } from "../support/fresh.ts";

/** A kind whose jobs do nothing. */
export const audit = defineJob("audit", { payload: typed<{ region: string }>() });

export type LedgerRow = {
  schedule: string;
  slot: Date;
  outcome: string;
  slots: number;
  job_id: string | null;
};

/** Start a worker with a handler of `audit`. It is stopped when the test ends. */
export async function startWorker(
  stint: Stint,
  options: Partial<WorkerOptions> = {},
  run: Parameters<typeof handle<NonNullable<(typeof audit)["types"]>>>[1] = () => undefined,
): Promise<Worker> {
  const worker = stint.worker({
    pools: { default: 4 },
    handlers: [handle(audit, run)],
    signals: false,
    poll: 100,
    ...options,
  });
  onTestFinished(async () => void (await worker.stop({ drain: 0, abort: 0 })));
  await worker.start();
  return worker;
}

export async function ledger(fresh: Fresh, schedule: string): Promise<LedgerRow[]> {
  return await fresh.sql<LedgerRow>(
    "select schedule, slot, outcome, slots, job_id from stint.schedule_slot where schedule = $1 order by slot",
    [schedule],
  );
}

/** As if no worker had run since `ago`: the next slot is the one that was due then. */
export async function makeLate(fresh: Fresh, schedule: string, ago: string): Promise<void> {
  await fresh.sql(
    `update stint.schedule
     set next_slot = to_timestamp(ceil(extract(epoch from clock_timestamp() - $2::interval) / (every_ms / 1000)) * (every_ms / 1000)),
         due_at = clock_timestamp() - $2::interval + interval '1 millisecond' * every_ms
     where name = $1`,
    [schedule, ago],
  );
}
