/**
 * The platform's own memory of what it asked for, to hold against what Stint says at the end (summary.ts).
 *
 * You would not do this in your application: that a job exists exactly if its transaction commits is the promise.
 * Here it is the point to be shown.
 */
import type { Enqueued, ManyEntry, Stint } from "stint";
import { queueOf } from "./jobs.ts";

/** What both a `pg` client and the transaction of `complete` can do. */
export type Transaction = { query(text: string, values: unknown[]): Promise<{ rows: unknown[] }> };

/** Enqueue in a transaction, and note in the same one which jobs that made. */
export async function enqueueWithReceipt(
  stint: Stint,
  tx: Transaction,
  entries: readonly ManyEntry[],
): Promise<Enqueued[]> {
  const jobs = await stint.in(tx).enqueueMany(entries);
  // One that was deduplicated is an older job, which has its receipt already.
  const created = jobs.filter((job) => job.created);
  await tx.query("insert into study_demo.receipt (job, queue) select * from unnest($1::uuid[], $2::text[])", [
    created.map((job) => job.id),
    created.map((job) => queueOf(job.kind)),
  ]);
  return jobs;
}
