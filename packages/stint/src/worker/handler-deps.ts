import type { Db } from "../db/db.ts";
import type { Logger } from "../runtime/logger.ts";
import type { ResultDeps } from "./encode-result.ts";
import type { ExtendableAttempt } from "./extend.ts";
import type { IsolatedHandlers } from "./isolation/isolated-handlers.ts";
import type { Leases } from "./leases.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import type { PlanDeps } from "./plan.ts";
import type { ProgressDeps } from "./progress.ts";
import type { StepsDeps } from "./steps.ts";
import type { TransactionGate } from "./transaction-gate.ts";

/** What calling a handler needs of its worker. */
export type HandlerDeps = StepsDeps &
  PlanDeps &
  ProgressDeps &
  ResultDeps & {
    readonly db: Db;
    readonly options: Pick<
      ResolvedWorkerOptions,
      | "handlers"
      | "middlewares"
      | "attempts"
      | "backoff"
      | "timeoutMs"
      | "maxTimeoutMs"
      | "maxCrashes"
      | "abortMs"
    >;
    readonly isolated: Pick<IsolatedHandlers, "run">;
    readonly leases: Pick<Leases, "inHandler">;
    readonly gate: Pick<TransactionGate, "needs" | "close" | "run">;
    readonly logger: Logger;
  };

/** What it needs of its attempt. */
export type CallingAttempt = ExtendableAttempt & {
  /** The number under which the lease thread knows the attempt. */
  readonly serial: number;
  readonly signal: AbortSignal;
  /** Why its signal aborted, if it did. */
  readonly aborted: Error | undefined;
  readonly traceId: string | undefined;
};
