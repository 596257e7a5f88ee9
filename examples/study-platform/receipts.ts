/**
 * The platform's own record of enqueued jobs. summary.ts compares it with Stint's record at the end.
 *
 * An application needs no such record: a job exists exactly if its transaction commits. The demo uses it to show that.
 */
import type { Enqueued, ManyEntry, Stint } from "stint";
import { queueOf } from "./jobs.ts";

/** The interface shared by a `pg` client and the transaction of `complete`. */
export type Transaction = { query(text: string, values: unknown[]): Promise<{ rows: unknown[] }> };

/** Enqueue in a transaction, and record the created jobs in the same transaction. */
export async function enqueueWithReceipt(
  stint: Stint,
  tx: Transaction,
  entries: readonly ManyEntry[],
): Promise<Enqueued[]> {
  const jobs = await stint.in(tx).enqueueMany(entries);
  // A deduplicated entry is an older job, which already has a receipt.
  const created = jobs.filter((job) => job.created);
  await tx.query("insert into study_demo.receipt (job, queue) select * from unnest($1::uuid[], $2::text[])", [
    created.map((job) => job.id),
    created.map((job) => queueOf(job.kind)),
  ]);
  return jobs;
}
