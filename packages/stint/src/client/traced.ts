import { withTrace, type Telemetry } from "../model/telemetry.ts";
import type { EncodedRow } from "../sql/enqueue.ts";

/** Send these rows, each carrying the trace they are enqueued in. */
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

/** What runs tomorrow is no part of the request that asked for it; a trace of a day shows nothing. */
function isLater({ row: { run_at: runAt, delay_ms: delayMs } }: EncodedRow): boolean {
  return runAt !== undefined || (delayMs ?? 0) > 0;
}
