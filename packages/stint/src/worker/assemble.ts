import type { Listener } from "../db/listener.ts";
import type { ResolvedUse } from "../model/dependencies.ts";
import { Emitter } from "../runtime/emitter.ts";
import type { Logger } from "../runtime/logger.ts";
import type { Meter } from "../telemetry/meter.ts";
import type { Vitals } from "../sql/series.ts";
import { Upkeep, type UpkeepOptions } from "../upkeep/upkeep.ts";
import type { Attempt } from "./attempt.ts";
import { Claimer } from "./claimer.ts";
import { ClaimOrder } from "./claim-order.ts";
import { ClaimScope } from "./claim-scope.ts";
import { CrashQuarantine } from "./crash-quarantine.ts";
import type { WorkerDeps } from "./deps.ts";
import { EndedReports } from "./ended-reports.ts";
import { EventLoopLag } from "./event-loop-lag.ts";
import type { WorkerEvents } from "./events.ts";
import { reportRescued } from "./failures.ts";
import { IsolatedHandlers } from "./isolation/isolated-handlers.ts";
import { Leases } from "./leases.ts";
import { logEvents } from "./log-events.ts";
import { logTotals } from "./log-totals.ts";
import { ClaimLoop } from "./claim-loop.ts";
import { Metering } from "./metering.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import { WorkerPauses } from "./pauses.ts";
import { AttemptPipeline } from "./pipeline.ts";
import { isCrashSuspect, timeoutOf } from "./policy.ts";
import { defaultPollMs } from "./poll.ts";
import type { LateLimitsOptions } from "./late-limits.ts";
import { LimitShares } from "./limit-shares.ts";
import { Places } from "./places.ts";
import { Pools } from "./pools.ts";
import { leasesOf } from "./registration.ts";
import { readyNotifier } from "./ready-notifier.ts";
import { Releaser } from "./releaser.ts";
import { Settler } from "./settler.ts";
import { SleepMode } from "./sleep-mode.ts";
import { SlowWatch } from "./slow-watch.ts";
import { StallWatch } from "./stall-watch.ts";
import { progressWriter, stepWriter, type ProgressWriter, type StepWriter } from "./fenced-writer.ts";
import { keyedKinds, Tokens } from "./tokens.ts";
import { TransactionGate } from "./transaction-gate.ts";
import { vitalsOf } from "./vitals.ts";
import { wakeListener } from "./wake-listener.ts";
import { WakeRouter } from "./wake-router.ts";
import { WorkerRow } from "./worker-row.ts";

/** The parts of one worker. Each is a file of this folder; `assemble` is the only place that connects them. */
export type WorkerParts = {
  readonly id: string;
  readonly logger: Logger;
  readonly events: Emitter<WorkerEvents>;
  readonly pools: Pools;
  readonly places: Places;
  readonly shares: LimitShares;
  readonly pipeline: AttemptPipeline;
  readonly releaser: Releaser;
  readonly settler: Settler;
  readonly stepWriter: StepWriter;
  readonly progressWriter: ProgressWriter;
  readonly leases: Leases;
  readonly isolated: IsolatedHandlers;
  readonly claimer: Claimer;
  readonly loop: ClaimLoop;
  readonly listener: Listener | undefined;
  readonly upkeep: Upkeep;
  readonly sleepMode: SleepMode;
  readonly router: WakeRouter;
  readonly row: WorkerRow;
  readonly pauses: WorkerPauses;
  readonly loopLag: EventLoopLag;
  /** Jobs of these queues are ready again: wake workers that serve them. */
  readonly notifyReady: (queues: readonly string[], jobs?: number) => void;
};

export type AssembleInput = {
  readonly id: string;
  readonly deps: WorkerDeps;
  readonly options: ResolvedWorkerOptions;
  readonly meter: Meter;
  readonly stopping: AbortSignal;
};

/** Make the parts of a worker. Nothing runs yet. */
export function assemble({ id, deps, options, meter, stopping }: AssembleInput): WorkerParts {
  const { db, telemetry } = deps;
  const logger = deps.logger.child({ worker: id });
  const events = makeEvents(logger, meter, options);
  const metering = new Metering(meter);
  const { notifyReady, notifyEach } = readyNotifier(deps);
  const pollMs = (): number => options.pollMs ?? defaultPollMs(row.receivesWakes);

  // What to claim.
  const scope = new ClaimScope({
    kinds: options.handlers.keys(),
    queues: options.pools.flatMap(({ queues }) => queues),
  });
  const order = new ClaimOrder();
  const shares = new LimitShares({ db, worker: id, pools: () => pools });
  const pools: Pools = new Pools(options.pools, {
    isCrashSuspect: (job) => isCrashSuspect(options, job),
    isLimited: (job) => places.needsPlaces(job),
    prefetches: options.prefetchMs > 0,
    excludes: (queue) => scope.excludes(queue),
    isFair: (queue) => order.weightsOf(queue) !== undefined,
    limited: shares,
  });
  const gate = new TransactionGate({
    db,
    handlers: options.handlers,
    logger,
    stopping,
    onOpened: () => loop.hint(),
  });
  scope.exclude({ kinds: () => gate.excludedKinds });
  scope.exclude({
    // A job claimed while leases cannot be renewed may run twice.
    everything: () => !leases.renewable || pipeline.attempts.isBehind || quarantine.isReleasing,
  });

  // Claims, and what becomes of the jobs they return.
  const releaser = new Releaser({ db, logger, metering, onReleased: notifyReady });
  const usesOf = (kind: string): readonly ResolvedUse[] => options.handlers.get(kind)?.definition.uses ?? [];
  const keyed = keyedKinds(options.handlers);
  const onWaiting = (): void => upkeep.wake("dependencies", 0);
  const tokens = new Tokens({ db, logger, releaser, usesOf, keyed, onWaiting });
  const begun: LateLimitsOptions["begun"] = () => pipeline.attempts.open;
  const places: Places = new Places({ db, logger, releaser, tokens, shares, pools, begun });
  const pauses = new WorkerPauses({
    db,
    logger,
    kinds: [...options.handlers.keys()],
    usesOf,
    releaser,
    takeWaiting: (which) => pools.releaseWaiting(which),
    releaseGathering: (which) => pipeline.releaseGathering(which),
    read: () => upkeep.wake("pauses", 0),
    onChanged: () => loop.hint(),
  });
  scope.exclude(pauses.exclusion);
  const settler = new Settler(
    db,
    logger,
    telemetry && ((ended, tookMs) => telemetry.settled?.(ended, tookMs, id)),
  );
  const isolated = new IsolatedHandlers();
  const writers = { stepWriter: stepWriter(db), progressWriter: progressWriter(db) };
  const claimer = new Claimer({
    db,
    worker: id,
    scope,
    shares,
    ...leasesOf(options),
    onFound: (jobs, sentAt) => pipeline.claimed(jobs, sentAt),
    onReleased: notifyReady,
  });
  const quarantine = new CrashQuarantine({
    pools,
    scope,
    claimer,
    releaser,
    runAlone: (job, sentAt) => pipeline.runAlone(job, sentAt),
    hasStuck: () => pipeline.attempts.stuck > 0,
    waitForWake: (ms, signal) => loop.waitForWake(ms, signal),
    onRoom: (queue) => loop.roomMade(queue),
  });
  const leases = new Leases({
    connection: deps.connection,
    schema: db.schema,
    prepare: deps.prepare,
    applicationName: `stint leases ${id}`.slice(0, 63),
    wake: deps.wake !== "none",
    prefetchMs: options.prefetchMs,
    logger,
    listener: {
      lost: (fence) => pipeline.leaseLost(fence),
      cancelled: (fence) => pipeline.cancelled(fence),
      released: (queues) => {
        pools.forgetReleased();
        for (const queue of queues) loop.hint(queue);
        loop.wake();
      },
      blocked: (ms, kinds) => events.emit("blocked", { ms, kinds }),
      renewable: () => loop.wake(),
    },
  });
  const pipeline = new AttemptPipeline({
    db,
    worker: id,
    telemetry,
    options,
    maxResultBytes: deps.maxResultBytes,
    unstorableKinds: new Set(),
    pools,
    leases,
    isolated,
    settler,
    ...writers,
    releaser,
    quarantine,
    places,
    tokens,
    pauses,
    metering,
    gate,
    events,
    logger,
    onClaimed: () => sleepMode.activity(),
    onRoom: (queue) => loop.roomMade(queue),
    onPlaceFreed: () => {
      loop.hint();
      if (shares.isLeaving) upkeep.wake("limits", 0);
    },
    onRequeued: (queue, delayMs) => {
      if (delayMs <= 0) notifyReady([queue], 1);
      else upkeep.wake("promote", delayMs);
    },
  });
  const loop = new ClaimLoop({
    pools,
    scope,
    claimer,
    order,
    quarantine,
    logger,
    pollMs,
    onClaimed: (jobs, sentAt) => pipeline.claimed(jobs, sentAt),
    listens: () => row.wantsWakes,
    listen: () => row.askForWakes(),
  });

  // The worker itself: its row, its wakes, its sleep, its upkeep.
  const slow = makeSlowWatch(options, events, metering, () => pipeline.attempts);
  const stalls = makeStallWatch(options, events, metering, () => pipeline.attempts);
  const loopLag = new EventLoopLag(() => {
    slow.look();
    stalls.look();
  });
  const vitals = (): Vitals => vitalsOf(pools.views, loopLag);
  const listener = wakeListener({ deps, worker: id, logger, onHint: (hint) => router.wake(hint), pollMs });
  const row: WorkerRow = new WorkerRow({
    deps,
    id,
    options,
    listener: () => listener,
    isSaturated: () => pools.saturated,
    isDraining: () => stopping.aborted,
    isAsleep: () => sleepMode.isAsleep,
    vitals,
    onLimits: (rules) => places.learn(rules),
    onClaimOrders: (orders) => order.learn(orders),
  });
  const upkeep = new Upkeep(db, {
    logger,
    ...upkeepOptionsOf(options),
    queues: () => (pools.saturated ? [] : pools.namedQueues.filter((queue) => !scope.excludes(queue))),
    search:
      pools.search &&
      (() => ({ ...pools.searched, serves: (queue) => pools.serves(queue) && !scope.excludes(queue) })),
    idleCheckMs: () => Math.min(pollMs(), options.rescueEveryMs),
    worker: row.info,
    saveState: async () => await row.update(),
    meter,
    vitals,
    onIdleCheck: async (seen) => await router.idleChecked(seen),
    onIdleCheckFailed: () => loop.hint(),
    onLimits: (rules, closedShares) => places.learn(rules, closedShares),
    onClaimOrders: (orders) => order.learn(orders),
    onUnserved: (kinds) => events.emit("unserved", kinds),
    onExpired: (jobs) => metering.expired(jobs),
    onPauses: (known) => pauses.learn(known),
    onRunBaseline: (p95Ms) => slow.learn(p95Ms),
    onPromoted: notifyReady,
    onReady: notifyEach,
    onRescued: (jobs) => {
      metering.rescued(jobs);
      for (const job of jobs) reportRescued(events, job);
      if (jobs.some((job) => job.state === "parked")) router.quarantined();
      notifyEach(jobs.filter((job) => job.state === "ready").map((job) => job.queue));
    },
  });
  const sleepMode: SleepMode = new SleepMode({
    afterMs: options.sleepMs,
    record: async () => await row.update(),
    fallAsleep: () => {
      upkeep.pause();
      listener?.quiet();
    },
    wakeUp: () => {
      upkeep.resume();
      listener?.loud();
      router.wake("due");
    },
  });
  const { attempts } = pipeline;
  const endedReports = new EndedReports({
    db,
    events,
    onEnded: deps.onEnded,
    notifies: deps.wake !== "none",
  });
  const sleeps = options.sleepMs !== undefined;
  const router = new WakeRouter({
    id,
    notifyReady,
    pools,
    pauses,
    attempts,
    loop,
    quarantine,
    leases,
    upkeep,
    sleepMode,
    row,
    metering,
    endedReports,
    sleeps,
  });

  return {
    id,
    logger,
    events,
    pools,
    places,
    shares,
    pipeline,
    releaser,
    settler,
    ...writers,
    leases,
    isolated,
    claimer,
    loop,
    listener,
    upkeep,
    sleepMode,
    router,
    row,
    pauses,
    loopLag,
    notifyReady,
  };
}

function makeEvents(logger: Logger, meter: Meter, options: ResolvedWorkerOptions): Emitter<WorkerEvents> {
  const events = new Emitter<WorkerEvents>((error, name) =>
    logger.error({ err: error, event: name }, "a listener threw"),
  );
  logEvents(events, logger, { attempts: options.logAttempts });
  logTotals(events, meter, logger);
  return events;
}

function makeSlowWatch(
  options: ResolvedWorkerOptions,
  events: Emitter<WorkerEvents>,
  metering: Metering,
  attempts: () => Iterable<Attempt>,
): SlowWatch<Attempt> {
  return new SlowWatch({
    attempts,
    timeoutOf: (job) => timeoutOf(options, job),
    onSlow: ({ job, ms, p95Ms, because }) => {
      metering.slow(job);
      const { fence, kind, queue } = job;
      events.emit("slow", { id: fence.job, kind, queue, ms, p95Ms, because });
    },
  });
}

function makeStallWatch(
  options: ResolvedWorkerOptions,
  events: Emitter<WorkerEvents>,
  metering: Metering,
  attempts: () => Iterable<Attempt>,
): StallWatch<Attempt> {
  return new StallWatch({
    attempts,
    stallAfterMs: ({ kind }) => options.handlers.get(kind)?.policy.stallAfterMs ?? options.stallAfterMs,
    onStalled: ({ job, quietMs, stallAfterMs }) => {
      metering.stalled(job);
      const { fence, kind, queue } = job;
      events.emit("stalled", { id: fence.job, kind, queue, ms: quietMs, stallAfterMs });
    },
  });
}

function upkeepOptionsOf({
  rescueEveryMs,
  maxCrashes,
  keepDoneMs,
  keepDeadMs,
}: ResolvedWorkerOptions): Pick<UpkeepOptions, "rescueEveryMs" | "maxCrashes" | "keepDoneMs" | "keepDeadMs"> {
  return { rescueEveryMs, maxCrashes, keepDoneMs, keepDeadMs };
}
