import { withTrace, type Telemetry } from "../model/telemetry.ts";
import type { EncodedRow } from "../sql/enqueue.ts";

/** Send the rows, each with the trace context of its enqueue. */
export async function traced<T>(
  telemetry: Telemetry,
  rows: readonly EncodedRow[],
  send: (rows: readonly EncodedRow[]) => Promise<T>,
): Promise<T> {
  const jobs = rows.map(({ row: { id, kind, queue, key } }) => ({ id, kind, queue, key }));
  return await telemetry.enqueue(jobs, async (trace) => {
    if (trace === undefined) return await send(rows);
    return await send(
      rows.map((encoded) => ({
        ...encoded,
        meta: withTrace(encoded.meta, isLater(encoded) ? { ...trace, link: true } : trace),
      })),
    );
  });
}

/** Delayed jobs start their own trace: a trace that spans a day is not readable. */
function isLater({ row: { run_at: runAt, delay_ms: delayMs } }: EncodedRow): boolean {
  return runAt !== undefined || (delayMs ?? 0) > 0;
}
