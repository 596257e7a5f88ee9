import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { nowMs } from "../../core/clock.ts";
import type { EnqueueSettings, Payload } from "../../core/types.ts";
import type { Context } from "../context.ts";
import { makePayload } from "../payload.ts";

export type Mixed = { rate: number; seconds: number; lateEveryMs: number; heldMs: number };

/** The first number of each sort of job, so that runs can be assigned to their sort. */
export const sorts = { urgent: 10_000_000, late: 20_000_000 } as const;

export type MixedSent = {
  sent: number;
  failed: number;
  beganMs: number;
  /** Jobs whose transaction committed long after their enqueue, with the time of the commit. */
  late: { n: number; committedMs: number }[];
};

const priorities = 3;
const failEvery = 20;

/**
 * The load of a live system: single enqueues at a steady rate in three priorities; one job in twenty fails once. Now and then a job has a
 * higher priority that no earlier job had, or its transaction stays open for a while.
 */
export async function mixedArrivals(context: Context, input: Mixed): Promise<MixedSent> {
  const { rate, seconds, lateEveryMs, heldMs } = input;
  const calls: Promise<boolean>[] = [];
  const late: Promise<MixedSent["late"][number]>[] = [];
  const total = rate * seconds;
  const beganMs = nowMs();
  for (let n = 0; n < total;) {
    const due = Math.min(total, Math.floor(((nowMs() - beganMs) * rate) / 1000) + 1);
    for (; n < due; n++) {
      const payload = makePayload(n, beganMs + (n * 1000) / rate);
      const fails: Payload = n % failEvery === 7 ? { ...payload, failures: 1 } : payload;
      calls.push(send(context, fails, { priority: n % priorities }));
    }
    // The last calls must return before the end.
    const elapsedMs = nowMs() - beganMs;
    if (elapsedMs > (late.length + 1) * lateEveryMs && elapsedMs + heldMs < seconds * 1000) {
      const k = late.length;
      late.push(commitLate(context, sorts.late + k, heldMs));
      calls.push(send(context, makePayload(sorts.urgent + k, nowMs()), { priority: -1 - k }));
    }
    await sleep(1);
  }
  const came = await Promise.all(calls);
  const failed = came.filter((ok) => !ok).length;
  return { sent: total + 2 * late.length, failed, beganMs, late: await Promise.all(late) };
}

async function send({ client }: Context, payload: Payload, settings: EnqueueSettings): Promise<boolean> {
  return await client.enqueueOne(payload, settings).then(
    () => true,
    () => false,
  );
}

async function commitLate(
  { client, stores }: Context,
  n: number,
  heldMs: number,
): Promise<{ n: number; committedMs: number }> {
  const tx = new Client({ connectionString: stores.postgres });
  await tx.connect();
  try {
    await tx.query("begin");
    await client.enqueueInTransaction(tx, makePayload(n, nowMs()));
    await sleep(heldMs);
    const committedMs = nowMs();
    await tx.query("commit");
    return { n, committedMs };
  } finally {
    await tx.end();
  }
}
