import {
  createStint,
  defineDependency,
  defineJob,
  entry,
  handle,
  silentLogger,
  typed,
  type ManyEntry,
  type Worker,
} from "stint";
import { makePayload } from "../actor/payload.ts";
import type { Client, Config, Payload, Stores } from "../core/types.ts";
import { Sql } from "./sql.ts";
import { tenantJobs } from "./tenant-jobs.ts";
import { fillTables, kind, prepareTables, tablesPending } from "./stint-tables.ts";

const noop = defineJob(kind, { payload: typed<Payload>() });
const slots = { default: 10, fast: 100 };

export async function open({ postgres }: Stores, config: Config): Promise<Client> {
  const sql = new Sql(postgres);
  const stint = createStint({ database: postgres, logger: silentLogger });
  let worker: Worker | undefined;
  return {
    prepare: async () => await prepareTables(sql, postgres),
    enqueueOne: async (payload, settings = {}) => await stint.enqueue(noop, payload, settings),
    enqueueBulk: async (payloads) => await stint.enqueueMany(payloads.map((payload) => entry(noop, payload))),
    enqueueInTransaction: async (tx, payload) => await stint.in(tx).enqueue(noop, payload),
    enqueueFlow: async ({ groups, leaves }) => {
      const parts: Record<string, ManyEntry> = {};
      let n = 0;
      const add = (name: string, after: string[]): string => {
        parts[name] = entry(noop, makePayload(n++), after.length === 0 ? {} : { after });
        return name;
      };
      const addLeaves = (of: string): string[] =>
        Array.from({ length: leaves }, (_, leaf) => add(`${of}-${leaf}`, []));
      const children =
        groups === 0
          ? addLeaves("leaf")
          : Array.from({ length: groups }, (_, group) => add(`group-${group}`, addLeaves(`leaf-${group}`)));
      add("root", children);
      await stint.flow("tree", parts);
    },
    enqueueTenants: async (load) => {
      await stint.queueSettings.set("default", { fair: load.fair ? "tenant" : false }, { reason: "bench" });
      for (const jobs of tenantJobs(load))
        await stint.enqueueMany(jobs.map(({ n, tenant }) => entry(noop, makePayload(n, 1), { tenant })));
    },
    fill: async (count, state) => await fillTables(sql, count, state),
    limit: async (max) => void (await stint.limits.set(`kind:${kind}`, max, { reason: "benchmark" })),
    pending: async () => await tablesPending(sql),
    work: async (onJob) => {
      worker = stint.worker({
        pools: { default: slots[config] },
        handlers: [handle(noop, async ({ payload }) => await onJob(payload))],
      });
      await worker.start();
    },
    workAtRate: async ({ limit, perMs }, onJob) => {
      const rate = { limit, per: perMs, burst: Math.ceil(limit / 10) };
      const uses = [defineDependency("api", { rate })];
      const limited = defineJob(kind, { payload: typed<Payload>(), uses });
      worker = stint.worker({
        pools: { default: slots[config] },
        handlers: [handle(limited, async ({ payload }) => await onJob(payload))],
      });
      await worker.start();
    },
    workSteps: async (steps, onJob) => {
      worker = stint.worker({
        pools: { default: slots[config] },
        handlers: [
          handle(noop, async ({ payload, step }) => {
            await onJob(payload);
            for (let n = 0; n < steps; n++) await step(`step ${n}`, () => n);
          }),
        ],
      });
      await worker.start();
    },
    close: async () => {
      await worker?.stop();
      await stint.close();
      await sql.end();
    },
  };
}
