import { newId } from "#stint/runtime/new-id.js";
import { claim, type ClaimInput, type Floor } from "#stint/sql/claim.js";
import { enqueue, type EnqueuedRow, type EnqueueRow } from "#stint/sql/enqueue.js";
import type { Run } from "#stint/db/db.js";
import type { ClaimedJob, Fence } from "#stint/model/job.js";
import type { AuditInfo } from "#stint/sql/transitions.js";
import type { Fresh } from "../support/fresh.ts";

export type JobInput = Partial<EnqueueRow> & { payload?: unknown; meta?: unknown };

/** Enqueue rows as the client would send them: kind "work" on queue "main" unless a row overrides these. */
export async function add(db: Run, jobs: readonly JobInput[] = [{}]): Promise<EnqueuedRow[]> {
  const rows = jobs.map(({ payload, meta, ...row }) => ({
    row: { id: newId(), kind: "work", queue: "main", ...row },
    payload: JSON.stringify(payload ?? null),
    meta: meta === undefined ? undefined : JSON.stringify(meta),
  }));
  return await enqueue(db, rows, false);
}

export async function addOne(db: Run, job: JobInput = {}): Promise<string> {
  return (await add(db, [job]))[0]?.id ?? "";
}

/** Claims for worker "w1" from queue "main", kind "work", unless `input` overrides these. */
export async function take(
  db: Run,
  input: Partial<ClaimInput> & { limit?: number } = {},
  floors?: readonly Floor[],
): Promise<ClaimedJob[]> {
  const { limit = 10, ...rest } = input;
  return await claim(
    db,
    {
      worker: "w1",
      leaseId: newId(),
      takes: [{ queue: "main", limit }],
      kinds: ["work"],
      kindLeaseMs: {},
      leaseMs: 30_000,
      ...rest,
    },
    floors,
  );
}

/** Enqueue one job and claim it. */
export async function running(db: Run, job: JobInput = {}): Promise<Fence> {
  const id = await addOne(db, job);
  const [claimed] = await take(db, { limit: 1 });
  if (claimed?.fence.job !== id) throw new Error("another job was claimed");
  return claimed.fence;
}

/** Fences that do not hold: another epoch, another lease, another job. */
export function wrongFences(fence: Fence): Fence[] {
  return [
    { ...fence, epoch: fence.epoch + 1 },
    { ...fence, leaseId: newId() },
    { ...fence, job: newId() },
  ];
}

/** Makes the leases of these jobs expire, an hour ago. */
export async function expire(fresh: Fresh, ...ids: string[]): Promise<void> {
  await fresh.sql(`update stint.job set lease_until = now() - interval '1 hour' where id = any ($1)`, [ids]);
}

export type StoredJob = Record<string, unknown> & { state: string; log: Record<string, unknown>[] | null };

export async function stored(fresh: Fresh, id: string): Promise<StoredJob> {
  const [row] = await fresh.sql<StoredJob>(`select * from stint.jobs where id = $1`, [id]);
  if (row === undefined) throw new Error(`no job ${id}`);
  return row;
}

export function auditInfo(reason: string | null = "because"): AuditInfo {
  return { auditId: newId(), actor: "tester", reason };
}
