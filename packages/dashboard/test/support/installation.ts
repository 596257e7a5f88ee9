/** A real installation: real Postgres, real jobs, the real server. */
import { defineJob, entry, handle, typed, type Stint, type StintOptions } from "stint";
import type { DashboardOptions } from "#dashboard/index.js";
import { freshSchema, type Fresh } from "../../../stint/test/support/fresh.ts";
import { startWorker } from "../../../stint/test/support/watch.ts";
import { until } from "../../../stint/test/support/until.ts";
import { serve } from "./serve.ts";

export const receipt = defineJob("send-receipt", { payload: typed<{ n: number }>(), queue: "mail" });
export const embed = defineJob("embed-chapter", { payload: typed<{ n: number }>() });

export type Installation = {
  readonly fresh: Fresh;
  readonly stint: Stint;
  /** Serve its dashboard; returns the address. */
  readonly serve: (options?: Partial<DashboardOptions>) => Promise<string>;
};

export async function installation(options: Partial<StintOptions> = {}): Promise<Installation> {
  const fresh = await freshSchema();
  const stint = fresh.client(options);
  return { fresh, stint, serve: async (options = {}) => await serve({ stint, ...options }) };
}

/** Enqueue jobs that die at their only attempt, with the error that `how` returns. */
export async function dieOf(
  stint: Stint,
  how: (n: number) => unknown,
  count: number,
  options: { key?: string; tenant?: string; tags?: string[] } = {},
): Promise<string[]> {
  const enqueued = await stint.enqueueMany(
    Array.from({ length: count }, (_, n) => entry(receipt, { n }, { attempts: 1, ...options })),
  );
  const ids = enqueued.map(({ id }) => id);
  const { worker } = await startWorker(stint, {
    pools: { mail: 8 },
    handlers: [
      handle(receipt, ({ payload }) => {
        throw how(payload.n);
      }),
    ],
  });
  await until(
    async () => {
      const jobs = await Promise.all(ids.map(async (id) => await stint.get(id)));
      return jobs.every((job) => job?.state === "dead");
    },
    { message: "all are dead" },
  );
  await worker.stop();
  return ids;
}
