import { makePayload } from "../actor/payload.ts";
import type { Config, FlowShape, Payload, StartRate } from "../core/types.ts";

/** The part of BullMQ's API used here, for either store. */
export type BullQueue = {
  waitUntilReady(): Promise<unknown>;
  on(event: "error", listener: () => void): void;
  add(name: string, data: Payload, options?: { priority?: number }): Promise<unknown>;
  addBulk(jobs: { name: string; data: Payload; opts?: { delay: number } }[]): Promise<unknown>;
  setGlobalConcurrency(concurrency: number): Promise<unknown>;
  getJobCounts(...states: string[]): Promise<Record<string, number>>;
  close(): Promise<void>;
};
export type BullWorker = {
  waitUntilReady(): Promise<unknown>;
  on(event: "error", listener: () => void): void;
  close(): Promise<void>;
};
export type BullClasses<Connection> = {
  Queue: new (name: string, options: { connection: Connection }) => BullQueue;
  Worker: new (
    name: string,
    processor: (job: { data: Payload }) => Promise<void>,
    options: { connection: Connection } & BullWork,
  ) => BullWorker;
};
/** A job and its children, which run before it. */
export type BullTree = { name: string; queueName: string; data: Payload; children?: BullTree[] };

/** A tree of jobs as `FlowProducer.add` takes it. */
export function treeOf({ groups, leaves }: FlowShape): BullTree {
  let n = 0;
  const job = (children: BullTree[] = []): BullTree => ({
    name: queueName,
    queueName,
    data: makePayload(n++),
    ...(children.length === 0 ? {} : { children }),
  });
  const many = (count: number, make: () => BullTree): BullTree[] => Array.from({ length: count }, make);
  const manyLeaves = (): BullTree[] => many(leaves, () => job());
  return job(groups === 0 ? manyLeaves() : many(groups, () => job(manyLeaves())));
}

type BullWork = {
  concurrency?: number;
  removeOnComplete?: { count: number };
  limiter?: { max: number; duration: number };
};

/** Default: one job at a time, finished jobs kept. */
const bullWork: Record<Config, BullWork> = {
  default: {},
  fast: { concurrency: 100, removeOnComplete: { count: 0 } },
};

const silent = (): undefined => undefined;

/** A connected queue. Later errors show as a failed cell, not on the terminal. */
export async function openQueue<Connection>(
  { Queue }: Pick<BullClasses<Connection>, "Queue">,
  connection: Connection,
): Promise<BullQueue> {
  const queue = new Queue(queueName, { connection });
  queue.on("error", silent);
  await queue.waitUntilReady();
  return queue;
}

/** A connected, running worker. */
export async function openWorker<Connection>(
  { Worker }: Pick<BullClasses<Connection>, "Worker">,
  connection: Connection,
  config: Config,
  onJob: (payload: Payload) => Promise<void>,
  rate?: StartRate,
): Promise<BullWorker> {
  const limiter = rate === undefined ? {} : { limiter: { max: rate.limit, duration: rate.perMs } };
  const options = { connection, ...bullWork[config], ...limiter };
  const worker = new Worker(queueName, async ({ data }) => await onJob(data), options);
  worker.on("error", silent);
  await worker.waitUntilReady();
  return worker;
}

export const queueName = "noop";
const day = 86_400_000;

export async function addMany(
  queue: BullQueue,
  payloads: readonly Payload[],
  scheduled = false,
): Promise<void> {
  await queue.addBulk(
    payloads.map((data) => ({ name: queueName, data, ...(scheduled ? { opts: { delay: day } } : {}) })),
  );
}
