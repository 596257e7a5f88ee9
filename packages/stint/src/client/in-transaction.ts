import type { UserTransaction } from "../db/transactions/user-transaction.ts";
import type { JobTypes } from "../define.ts";
import { JobNotFoundError, WrongStateError } from "../errors.ts";
import { requireFunction } from "../model/options.ts";
import { liveStates } from "../model/state.ts";
import type { Logger } from "../runtime/logger.ts";
import { changeStatementInside } from "../sql/change.ts";
import { completeStatementInside } from "../sql/complete.ts";
import { findStatementInside } from "../sql/find.ts";
import { transactionIdInside } from "../sql/inside.ts";
import { requireChanged, resolveChange, type JobChange } from "./change.ts";
import type { CommitHook, CommitWatch } from "./commit-watch.ts";
import { refusedQuietly } from "./enqueue-in.ts";
import type { Enqueued, Enqueues } from "./entries.ts";
import { idOf } from "./ids.ts";
import { runInside, runLater } from "./inside.ts";
import { toAuditInfo, type ActOptions, type Encoders } from "./jobs.ts";
import type { SchedulesClient, SchedulesInside, TransactionOfSchedules } from "./schedules.ts";

/** The caller's transaction: what is done here happens exactly if it commits. */
export interface InTransaction extends Enqueues {
  /** End a waiting job as succeeded, as `stint.complete` does. */
  complete<Types extends JobTypes>(
    job: Enqueued<Types> | string,
    result?: Types["result"],
    options?: ActOptions,
  ): Promise<void>;
  /** Change a waiting job, as `stint.change` does. */
  change<Types extends JobTypes>(
    job: Enqueued<Types> | string,
    change: JobChange<Types>,
    options?: ActOptions,
  ): Promise<void>;
  /** Make, change, pause or remove schedules, as `stint.schedules` does. */
  readonly schedules: SchedulesInside;
  /**
   * Call the hook in this process once the transaction has committed, and not at all if it rolls back. The promise resolves when the hook is
   * registered. The hook is lost if the process ends first: enqueue a job for work that must happen.
   *
   * @throws {InvalidOptionError} No transaction is open.
   */
  afterCommit(hook: CommitHook): Promise<void>;
}

export type InTransactionDeps = {
  readonly schema: string;
  readonly actor: string;
  readonly logger: Logger;
  readonly commits: CommitWatch;
  readonly schedules: SchedulesClient;
  readonly encoders: Encoders;
};

/** What a transaction can do beside enqueueing. */
export function inTransaction(
  tx: UserTransaction,
  deps: InTransactionDeps,
): Omit<InTransaction, keyof Enqueues> {
  const { schema, actor, logger, commits } = deps;
  const quietly = <T>(work: Promise<T>): Promise<T> =>
    refusedQuietly(work, (error) =>
      logger.error({ err: error }, "a call was refused because its transaction was over"),
    );
  /** The id of the transaction, read before anything else is awaited: later statements write in it or not at all. */
  const begin = (what: string): Promise<string> => runInside(tx, schema, what, transactionIdInside);

  const complete: InTransaction["complete"] = async (job, result, options = {}) => {
    const id = idOf(job, "complete(job)");
    const audit = toAuditInfo(actor, "complete", options, false);
    const what = `the completion of job ${id}`;
    const xid = await begin(what);
    const find = (): Promise<{ kind: string; state: string } | null> =>
      runLater(tx, schema, what, findStatementInside(id, xid));
    const found = await find();
    if (found === null) throw new JobNotFoundError(id);
    const encoded = await deps.encoders.encodeResult(found.kind, result);
    if (await runLater(tx, schema, what, completeStatementInside(id, encoded, audit, xid))) return;
    const waiting = liveStates.filter((state) => state !== "running");
    throw new WrongStateError(id, (await find())?.state ?? "gone", "complete", waiting);
  };

  const change: InTransaction["change"] = async (job, wished, options = {}) => {
    const id = idOf(job, "change(job)");
    const audit = toAuditInfo(actor, "change", options, false);
    let wanted = resolveChange(wished);
    const what = `the change of job ${id}`;
    const xid = await begin(what);
    if (wished.payload !== undefined) {
      const found = await runLater(tx, schema, what, findStatementInside(id, xid));
      if (found === null) throw new JobNotFoundError(id);
      wanted = { ...wanted, ...(await deps.encoders.encodePayload(found.kind, wished.payload)) };
    }
    const changed = await runLater(tx, schema, what, changeStatementInside(id, wanted, audit, xid));
    requireChanged(id, wanted, changed);
  };

  const afterCommit = async (hook: CommitHook): Promise<void> => {
    requireFunction("afterCommit", hook);
    commits.add(await begin("afterCommit"), hook);
  };

  return {
    complete: (job, result, options) => quietly(complete(job, result, options)),
    change: (job, wished, options) => quietly(change(job, wished, options)),
    afterCommit: (hook) => quietly(afterCommit(hook)),
    get schedules() {
      const run: TransactionOfSchedules["run"] = (what, statement) => runLater(tx, schema, what, statement);
      return deps.schedules.inside({ begin, run, quietly });
    },
  };
}
