import { makePayload } from "../actor/payload.ts";
import { notOffered, type Client, type Config, type Stores } from "../core/types.ts";
import {
  addMany,
  openQueue,
  openWorker,
  queueName,
  treeOf,
  type BullClasses,
  type BullTree,
  type BullWorker,
} from "./bullmq.ts";
import { loadPeer } from "./load-peer.ts";
import { tenantJobs } from "./tenant-jobs.ts";

type Connection = { host: string; port: number; maxRetriesPerRequest: null };
type Flows = {
  FlowProducer: new (options: { connection: Connection }) => {
    add(tree: BullTree): Promise<unknown>;
    close(): Promise<void>;
  };
};
type Redis = {
  Redis: new (options: Connection) => { flushall(): Promise<unknown>; disconnect(): void };
};

export async function open({ redisPort }: Stores, config: Config): Promise<Client> {
  if (redisPort === undefined) throw notOffered("bullmq-redis", "Redis on this machine");
  const classes = await loadPeer<BullClasses<Connection> & Flows>("bullmq");
  const { Redis } = await loadPeer<Redis>("ioredis");
  const connection: Connection = { host: "127.0.0.1", port: redisPort, maxRetriesPerRequest: null };
  const redis = new Redis(connection);
  const queue = await openQueue(classes, connection);
  let worker: BullWorker | undefined;
  return {
    prepare: async () => void (await redis.flushall()),
    enqueueOne: async (payload, settings = {}) => await queue.add(queueName, payload, settings),
    enqueueBulk: async (payloads) => await addMany(queue, payloads),
    enqueueInTransaction: async () => {
      throw notOffered("bullmq-redis", "enqueue inside a Postgres transaction");
    },
    fill: async (count, state) => {
      if (state === "finished") throw notOffered("bullmq-redis", "quick way to have finished jobs");
      for (let n = 0; n < count; n += 1000) {
        const size = Math.min(1000, count - n);
        const payloads = Array.from({ length: size }, (_, i) => makePayload(n + i));
        await addMany(queue, payloads, state === "scheduled");
      }
    },
    limit: async (max) => void (await queue.setGlobalConcurrency(max)),
    enqueueFlow: async (shape) => {
      const flows = new classes.FlowProducer({ connection });
      await flows.add(treeOf(shape));
      await flows.close();
    },
    // Groups, which share workers among tenants, are not in the open edition: one queue in the order of arrival.
    enqueueTenants: async (load) => {
      if (load.fair) throw notOffered("bullmq-redis", "groups in its open edition");
      for (const jobs of tenantJobs(load))
        await addMany(
          queue,
          jobs.map(({ n }) => makePayload(n, 1)),
        );
    },
    pending: async () => {
      const counts = await queue.getJobCounts("wait", "active", "prioritized", "waiting-children");
      return Object.values(counts).some((count) => count > 0);
    },
    work: async (onJob) => {
      worker = await openWorker(classes, connection, config, onJob);
    },
    workAtRate: async (rate, onJob) => {
      worker = await openWorker(classes, connection, config, onJob, rate);
    },
    close: async () => {
      await worker?.close();
      await queue.close();
      redis.disconnect();
    },
  };
}
