import type { Config, Payload } from "../core/types.ts";

/** What is used of BullMQ, on either store. */
export type BullQueue = {
  waitUntilReady(): Promise<unknown>;
  on(event: "error", listener: () => void): void;
  add(name: string, data: Payload, options?: { priority?: number }): Promise<unknown>;
  addBulk(jobs: { name: string; data: Payload; opts?: { delay: number } }[]): Promise<unknown>;
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
type BullWork = { concurrency?: number; removeOnComplete?: { count: number } };

/** Default: one job at a time, finished jobs kept. */
export const bullWork: Record<Config, BullWork> = {
  default: {},
  fast: { concurrency: 100, removeOnComplete: { count: 0 } },
};

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
