import type { ClientBase } from "pg";
import type { Client, Config, Payload, Stores } from "../core/types.ts";
import { cloneRows } from "./clone-rows.ts";
import { loadPeer } from "./load-peer.ts";
import { Sql } from "./sql.ts";

type SendOptions = {
  priority?: number;
  db?: { executeSql(text: string, values: unknown[]): Promise<unknown> };
};
type WorkOptions = { batchSize?: number; localConcurrency?: number; burstWhenBatchFull?: boolean };
type Boss = {
  on(event: "error" | "warning", listener: () => void): void;
  start(): Promise<unknown>;
  stop(): Promise<void>;
  createQueue(name: string, options: { notify: boolean }): Promise<void>;
  send(name: string, data: Payload, options?: SendOptions): Promise<unknown>;
  insert(name: string, jobs: { data: Payload }[]): Promise<unknown>;
  work(
    name: string,
    options: WorkOptions,
    handler: (jobs: { data: Payload }[]) => Promise<void>,
  ): Promise<unknown>;
};
type Module = {
  PgBoss: new (options: { connectionString: string; useListenNotify: boolean }) => Boss;
};

/** Fast: the best of the settings tried on two cores. A batch succeeds or fails as a whole. */
const work: Record<Config, WorkOptions> = {
  default: {},
  fast: { batchSize: 1000, localConcurrency: 4, burstWhenBatchFull: true },
};

export async function open({ postgres }: Stores, config: Config): Promise<Client> {
  const { PgBoss } = await loadPeer<Module>("pg-boss");
  const notify = config === "fast";
  // A queue stores its notify setting, so each config has its own queue.
  const queue = `noop-${config}`;
  const sql = new Sql(postgres);
  const boss = new PgBoss({ connectionString: postgres, useListenNotify: notify });
  for (const event of ["error", "warning"] as const) boss.on(event, () => undefined);
  await boss.start();
  return {
    prepare: async () => {
      await boss.createQueue(queue, { notify });
      await sql.run("truncate pgboss.job cascade");
    },
    enqueueOne: async (payload, { priority } = {}) =>
      await boss.send(queue, payload, priority === undefined ? {} : { priority: -priority }),
    enqueueBulk: async (payloads) =>
      await boss.insert(
        queue,
        payloads.map((data) => ({ data })),
      ),
    enqueueInTransaction: async (tx, payload) => await boss.send(queue, payload, { db: inside(tx) }),
    fill: async (count, state) => {
      await boss.send(queue, { n: 0, at: 0, filler: "x".repeat(60) });
      const done = { state: "'completed'", started_on: "now()", completed_on: "now()" };
      await cloneRows(sql, {
        count,
        tables: {
          "pgboss.job": {
            id: "gen_random_uuid()",
            ...(state === "finished" ? done : {}),
            ...(state === "scheduled" ? { start_after: "now() + interval '1 day'" } : {}),
          },
        },
      });
    },
    pending: async () =>
      await sql.isTrue(
        "exists (select from pgboss.job where state < 'completed' and start_after < now() + interval '1 hour')",
      ),
    work: async (onJob) => {
      await boss.work(queue, work[config], async (jobs) => {
        await Promise.all(jobs.map(async ({ data }) => await onJob(data)));
      });
    },
    close: async () => {
      await boss.stop();
      await sql.end();
    },
  };
}

function inside(tx: ClientBase): NonNullable<SendOptions["db"]> {
  return { executeSql: async (text, values) => await tx.query(text, values) };
}
