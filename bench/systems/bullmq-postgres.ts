import { makePayload } from "../actor/payload.ts";
import { notOffered, type Client, type Config, type Stores } from "../core/types.ts";
import { addMany, openQueue, openWorker, queueName, type BullClasses, type BullWorker } from "./bullmq.ts";
import { cloneRows } from "./clone-rows.ts";
import { loadPeer } from "./load-peer.ts";
import { Sql } from "./sql.ts";

type Connection = { connectionString: string; max?: number; migrate: boolean };
type Module = {
  createPostgresBackend: unknown;
  withBackend: (factory: unknown) => BullClasses<Connection>;
};

export async function open({ postgres }: Stores, config: Config): Promise<Client> {
  const { createPostgresBackend, withBackend } = await loadPeer<Module>("bullmq");
  const classes = withBackend(createPostgresBackend);
  const connection = {
    connectionString: postgres,
    migrate: true,
    ...(config === "fast" ? { max: 20 } : {}),
  };
  const sql = new Sql(postgres);
  const queue = await openQueue(classes, connection);
  let worker: BullWorker | undefined;
  return {
    prepare: async () => await sql.run("truncate bullmq.job, bullmq.event cascade"),
    enqueueOne: async (payload, settings = {}) => await queue.add(queueName, payload, settings),
    enqueueBulk: async (payloads) => await addMany(queue, payloads),
    enqueueInTransaction: async () => {
      throw notOffered("bullmq-postgres", "enqueue inside the caller's transaction");
    },
    fill: async (count, state) => {
      await addMany(queue, [makePayload(0)], state === "scheduled");
      const now = "(extract(epoch from now()) * 1000)::bigint";
      const done = { state: "'completed'", processed_at_ms: now, finished_at_ms: now };
      await cloneRows(sql, {
        count,
        tables: {
          "bullmq.job": {
            id: "'fill-' || n",
            seq: "nextval('bullmq.job_seq')",
            ...(state === "finished" ? done : {}),
          },
        },
      });
    },
    pending: async () =>
      await sql.isTrue("exists (select from bullmq.job where state in ('waiting', 'active'))"),
    work: async (onJob) => {
      worker = await openWorker(classes, connection, config, onJob);
    },
    close: async () => {
      await worker?.close();
      await queue.close();
      await sql.end();
    },
  };
}
