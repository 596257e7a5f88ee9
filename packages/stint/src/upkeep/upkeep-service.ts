import type { Db } from "../db/db.ts";
import type { Logger } from "../runtime/logger.ts";
import type { IdleCheckPart } from "../sql/idle-check.ts";
import type { Unserved } from "../sql/kinds.ts";
import type { PauseId } from "../model/pause.ts";
import type { ClaimOrderSetting } from "../sql/claim-order.ts";
import type { Expired } from "../sql/expire.ts";
import type { Rescued } from "../sql/rescue.ts";
import type { Vitals } from "../sql/series.ts";
import type { WorkerInfo } from "../sql/workers.ts";
import type { Meter } from "../telemetry/meter.ts";
import type { Service } from "./service-loop.ts";

/** What upkeep services get from the worker that runs them. */
export type UpkeepDeps = {
  readonly db: Db;
  readonly logger: Logger;
  readonly worker: WorkerInfo;
  /** Write the state of the worker to its row. False: the row is gone. */
  readonly saveState: () => Promise<boolean>;
  readonly meter: Meter;
  readonly vitals: () => Vitals;
  readonly rescueEveryMs: number;
  readonly maxCrashes: number;
  readonly keepDoneMs: number;
  readonly keepDeadMs: number;
  /** Jobs of these queues became ready: so many at most; undefined: any number. */
  readonly onPromoted: (queues: readonly string[], jobs?: number) => void;
  /** Jobs became ready: the queue of each. */
  readonly onReady: (queues: readonly string[]) => void;
  readonly onRescued: (jobs: readonly Rescued[]) => void;
  /** The limits of queues, kinds and tenants that are in force, and the closed shares of this worker. */
  readonly onLimits: (rules: readonly string[], closedShares: readonly string[]) => void;
  /** The queues that are claimed in another order than by priority and time. */
  readonly onClaimOrders: (orders: readonly ClaimOrderSetting[]) => void;
  readonly onExpired: (jobs: readonly Expired[]) => void;
  readonly onUnserved: (kinds: readonly Unserved[]) => void;
  /** What is paused now. */
  readonly onPauses: (pauses: readonly PauseId[]) => void;
  /** The normal run time of each kind of this worker, as of now. */
  readonly onRunBaseline: (p95Ms: ReadonlyMap<string, number>) => void;
};

/** A service of one worker. */
export type RunningService = {
  readonly service: Service;
  /**
   * The idle check was done. `dueInMs`: the value of this service's part, in milliseconds until it has work, negative when late; null: it has
   * none. `at`: the time of the check by the database's clock. Default: the service runs when it has work.
   */
  readonly onIdleCheck?: (dueInMs: number | null, at: string) => void;
  /** A wake asks for the service now. Default: its next tick comes at once. */
  readonly onWake?: () => void;
  readonly onIdleCheckFailed?: (error: unknown) => void;
  /** False: the worker must not fall asleep yet. */
  readonly isDone?: () => boolean;
  /** Write what only this process knows. Called when the worker is about to sleep or has ended. */
  readonly flush?: () => Promise<void>;
};

/**
 * An upkeep duty that every worker runs. It registers itself by its entry in services.ts; nothing else names it.
 */
export type UpkeepService<Name extends string = string> = {
  readonly name: Name;
  /** Its part of the one statement that an idle worker sends. Without it, the service runs by its own timer only. */
  readonly idleCheck?: IdleCheckPart;
  readonly create: (deps: UpkeepDeps) => RunningService;
};
