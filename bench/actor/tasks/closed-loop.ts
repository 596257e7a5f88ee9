import { Pool } from "pg";
import { nowMs } from "../../core/clock.ts";
import { percentile } from "../../core/stats.ts";
import type { Context } from "../context.ts";
import { makePayload } from "../payload.ts";

export type ClosedLoop = { callers: number; seconds: number };
export type ClosedLoopResult = { calls: number; seconds: number; p50: number; p99: number };

// By then, connections are open and statements are prepared.
const warmUpMs = 300;

/** Each caller awaits its own single enqueue, then makes the next. */
export async function enqueue({ client }: Context, input: ClosedLoop): Promise<ClosedLoopResult> {
  return await loop(input, async (n) => await client.enqueueOne(makePayload(n)));
}

/** Each caller awaits one call that enqueues `size` jobs. */
export async function enqueueBulk(
  { client }: Context,
  { size, ...input }: ClosedLoop & { size: number },
): Promise<ClosedLoopResult> {
  return await loop(
    input,
    async (n) => await client.enqueueBulk(Array.from({ length: size }, (_, i) => makePayload(n * size + i))),
  );
}

/** Each caller begins a transaction, inserts a business row, enqueues a job and commits. */
export async function enqueueInTransaction(
  { client, stores }: Context,
  input: ClosedLoop,
): Promise<ClosedLoopResult> {
  const pool = new Pool({ connectionString: stores.postgres, max: input.callers });
  try {
    await pool.query("create table if not exists business (id bigint, body text)");
    return await loop(input, async (n) => {
      const tx = await pool.connect();
      try {
        await tx.query("begin");
        await tx.query({
          name: "business",
          text: "insert into business values ($1, $2)",
          values: [n, "a row of the user's own"],
        });
        await client.enqueueInTransaction(tx, makePayload(n));
        await tx.query("commit");
      } finally {
        tx.release();
      }
    });
  } finally {
    await pool.end();
  }
}

// A call that itself takes a second must still fall into the measured time.
const fewestCalls = 3;

/** Counts the calls that return between the warm-up and the end. */
async function loop(
  { callers, seconds }: ClosedLoop,
  call: (n: number) => Promise<unknown>,
): Promise<ClosedLoopResult> {
  const latencies: number[] = [];
  const fromMs = nowMs() + warmUpMs;
  const toMs = fromMs + seconds * 1000;
  let stoppedMs: number | undefined;
  let n = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (stoppedMs === undefined) {
        const begunMs = nowMs();
        await call(n++);
        const endedMs = nowMs();
        if (endedMs < fromMs || stoppedMs !== undefined) continue;
        latencies.push(endedMs - begunMs);
        if (endedMs >= toMs && latencies.length >= fewestCalls) stoppedMs = endedMs;
      }
    }),
  );
  return {
    calls: latencies.length,
    seconds: ((stoppedMs ?? toMs) - fromMs) / 1000,
    p50: percentile(latencies, 0.5),
    p99: percentile(latencies, 0.99),
  };
}
