import type { Db } from "../db/db.ts";
import { isTransient } from "../db/transient.ts";
import { codeOf } from "../db/sqlstate.ts";
import { DatabaseUnavailableError, StintError } from "../errors.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { newId } from "../runtime/new-id.ts";
import { sleep } from "../runtime/sleep.ts";
import { clip } from "../runtime/text.ts";
import { queueFullCode } from "../sql/admission.ts";
import { actOnMany, type Acted } from "../sql/operate-many.ts";
import { endOperation, progressOperation, type StoredOperation } from "../sql/operations.ts";
import type { Search } from "../sql/search.ts";
import { findPage } from "./bounded-search.ts";

const batchSize = 100;
/** The pause between two batches, and before locked jobs are tried again. */
const pauseMs = 20;
const tries = 3;
/** Consecutive transient failures after which the operation is abandoned: about 30 seconds. */
const mostFailures = 10;

export type Running = {
  readonly db: Db;
  readonly operation: StoredOperation;
  readonly search: Search;
  readonly wake: (hint: string) => void;
  /** Aborted when this process closes. */
  readonly signal: AbortSignal;
};

/** Run an operation to its end, a batch at a time. Never rejects: the outcome is in its row. */
export async function runOperation(running: Running): Promise<void> {
  const { db, operation, signal } = running;
  try {
    const state = await walkThrough(running);
    await steadily(signal, () =>
      endOperation(db, operation.id, state, state === "abandoned" ? "its process was closed" : null),
    );
  } catch (error) {
    // If the end cannot be written, the operation counts as abandoned once its progress stops.
    await endOperation(db, operation.id, "abandoned", sayable(error)).catch(() => undefined);
  }
}

/** The driver's message may contain hosts and users, and every viewer of the operation reads this text. */
function sayable(error: unknown): string {
  if (error instanceof StintError && !(error instanceof DatabaseUnavailableError))
    return clip(error.message, 2_000);
  const code = codeOf(error);
  if (code === undefined) return "the database could not be reached";
  const why = code === queueFullCode ? "a strict queue is full" : "the database refused it";
  return `${why} (SQLSTATE ${code})`;
}

async function walkThrough(running: Running): Promise<"finished" | "aborted" | "abandoned"> {
  const { db, operation, signal } = running;
  let before: string | null = running.search.before;
  while (before !== null) {
    if (signal.aborted) return "abandoned";
    const search: Search = { ...running.search, before };
    const page = await steadily(signal, () => findPage(db, search, batchSize));
    const ids = page.jobs.map((job) => job.id);
    const done = await actOn(running, ids);
    const step = { done, skipped: ids.length - done, cursor: page.next };
    // A lost response is sent again and may be counted twice; the audit has what was done to each job.
    if (!(await steadily(signal, () => progressOperation(db, operation.id, step)))) return "aborted";
    before = page.next;
    await sleep(pauseMs, signal);
  }
  return "finished";
}

/** Returns the number of changed jobs. Jobs locked by another session are tried again. */
async function actOn(running: Running, ids: readonly string[]): Promise<number> {
  const { db, operation, search, signal } = running;
  const { action, actor, reason, asOf } = operation;
  // One audit id per job for all tries: an action whose response was lost must not be repeated.
  const auditIds = new Map(ids.map((id) => [id, newId()]));
  let left = ids;
  for (let round = 1; left.length > 0 && round <= tries; round++) {
    if (round > 1) await sleep(pauseMs, signal);
    const audits = left.map((id) => auditIds.get(id) ?? newId());
    const batch = { ids: left, auditIds: audits, states: search.states, until: asOf, actor, reason };
    const acted = await steadily(signal, () => actOnMany(db, action, batch));
    wakeWorkers(running, acted);
    const done = new Set(acted.map((one) => one.id));
    left = left.filter((id) => !done.has(id));
  }
  return ids.length - left.length;
}

function wakeWorkers({ operation, wake }: Running, acted: readonly Acted[]): void {
  if (operation.action === "cancel") {
    if (acted.some((one) => one.was === "running")) wake("cancel");
    return;
  }
  for (const queue of new Set(acted.flatMap((one) => one.queue ?? []))) wake(`ready:${queue}`);
}

/** Retry transient failures for a while. */
async function steadily<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const retryDelay = new RetryDelay();
  for (let failures = 1; ; failures++) {
    try {
      return await work();
    } catch (error) {
      if (!isTransient(error) || failures >= mostFailures || signal.aborted) throw error;
      await sleep(retryDelay.next(), signal);
    }
  }
}
