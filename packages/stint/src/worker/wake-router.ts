import { monotonicMs } from "../runtime/monotonic.ts";
import type { Upkeep, WorkerIdleCheck } from "../upkeep/upkeep.ts";
import type { Attempts } from "./attempts.ts";
import type { CrashQuarantine } from "./crash-quarantine.ts";
import type { EndedReports } from "./ended-reports.ts";
import type { Leases } from "./leases.ts";
import type { ClaimLoop } from "./claim-loop.ts";
import type { Metering } from "./metering.ts";
import type { WorkerPauses } from "./pauses.ts";
import type { Pools } from "./pools.ts";
import { readReadyHint, wakeTag, type ReadyHint } from "./ready-hint.ts";
import type { SleepMode } from "./sleep-mode.ts";
import type { WorkerRow } from "./worker-row.ts";

/** How long a worker without room continues to receive wakes before enqueuers are asked to send none. */
const stopWakesAfterMs = 500;

export type WakeRouterOptions = {
  /** The id of the worker. */
  readonly id: string;
  /** Wake every worker of these queues. */
  readonly notifyReady: (queues: readonly string[]) => void;
  readonly pools: Pools;
  readonly pauses: Pick<WorkerPauses, "changed">;
  readonly attempts: Attempts;
  readonly loop: ClaimLoop;
  readonly quarantine: CrashQuarantine;
  readonly leases: Leases;
  readonly upkeep: Upkeep;
  readonly sleepMode: SleepMode;
  readonly row: WorkerRow;
  readonly metering: Metering;
  readonly endedReports: EndedReports;
  /** Whether the worker has a sleep mode. */
  readonly sleeps: boolean;
};

/** Passes on hints that there may be something to do: wakes, and what the idle check saw. */
export class WakeRouter {
  readonly #options: WakeRouterOptions;
  readonly #tag: string;
  /** Queues that this worker looks into after a while, unless other workers have taken the jobs. */
  readonly #later = new Map<string, NodeJS.Timeout>();
  #lastIdleCheckAt = 0;

  constructor(options: WakeRouterOptions) {
    this.#options = options;
    this.#tag = wakeTag(options.id);
  }

  /** Monotonic time of the last idle check that returned; 0 before the first. */
  get lastIdleCheckAt(): number {
    return this.#lastIdleCheckAt;
  }

  /**
   * A wake: `ready:<queue>`, also for named workers only, `due`, `schedule`, `signal`, `limits`, `dependencies`, `queues`, `cancel`, `paused` or `waiting`;
   * `listening` when wakes may have been missed, `lost` when none arrive any more.
   */
  wake(hint: string): void {
    const ready = readReadyHint(hint, this.#tag);
    if (ready !== undefined) return this.#ready(ready);
    const { pauses, loop, leases, upkeep, sleepMode } = this.#options;
    // Some process waits for jobs. That is no work, so a sleeping worker continues sleeping.
    if (hint === "waiting") return this.#options.endedReports.wanted();
    // The next check is up to 9 s away, because wakes made polling a safety net. A sleeping worker continues sleeping.
    if (hint === "lost") return upkeep.checkSoon();
    // Before a sleeping worker wakes up and claims.
    if (hint === "paused") pauses.changed();
    sleepMode.activity();
    this.#stopWakesSoon();
    if (hint === "due") {
      upkeep.wake("promote", 0);
      loop.hint();
    } else if (hint === "signal") upkeep.wake("deliver", 0);
    else if (hint === "limits") upkeep.wake("limits", 0);
    else if (hint === "dependencies") upkeep.wake("dependencies", 0);
    else if (hint === "queues") upkeep.wake("claim-order", 0);
    else if (hint === "schedule") upkeep.wake("schedules", 0);
    else if (hint === "cancel") leases.renewNow();
    else if (hint === "listening") upkeep.checkSoon();
  }

  #ready({ queue, inMs, passesOn }: ReadyHint): void {
    const { pools, loop, sleepMode, notifyReady } = this.#options;
    // Also for wakes that name other workers: soon none will name this one.
    this.#stopWakesSoon();
    if (inMs === null) return;
    if (inMs > 0) return this.#lookLater(queue, inMs);
    // A wake for a queue of other workers must not end the sleep of this one.
    if (pools.serves(queue)) sleepMode.activity();
    loop.claimAtOnce(queue);
    if (passesOn && !loop.mayClaim(queue)) notifyReady([queue]);
  }

  /** One look serves all wakes until then. */
  #lookLater(queue: string, inMs: number): void {
    if (this.#later.has(queue)) return;
    const look = (): void => {
      this.#later.delete(queue);
      this.#ready({ queue, inMs: 0, passesOn: false });
    };
    this.#later.set(queue, setTimeout(look, inMs).unref());
  }

  /** This wake could not be followed. If there is still no room after a while, enqueuers are asked to send none. */
  #stopWakesSoon(): void {
    const { pools, upkeep, row } = this.#options;
    if (row.wantsWakes && pools.saturated) upkeep.wake("presence", stopWakesAfterMs);
  }

  /** The idle check returned: claim what it saw, or consider sleep mode. */
  async idleChecked({ ready, named, suspect, nextDueMs, at }: WorkerIdleCheck): Promise<void> {
    const { pools, attempts, loop, upkeep, sleepMode, metering, sleeps } = this.#options;
    this.#lastIdleCheckAt = monotonicMs();
    metering.clock.sync(at);
    const queues = named?.queues ?? [];
    for (const queue of queues) loop.hint(queue);
    if (ready || named?.more === true) loop.hint();
    if (suspect) this.quarantineSeen();
    if (ready || queues.length > 0 || suspect || pools.busy > 0 || attempts.size > 0) sleepMode.activity();
    else if (loop.quiet && upkeep.isDone) await sleepMode.consider(nextDueMs);
    else if (sleeps) upkeep.flushSoon();
  }

  /** Some job is in crash quarantine. */
  quarantineSeen(): void {
    this.#options.quarantine.seen();
    this.#options.loop.wake();
  }

  /** A job has just been quarantined. */
  quarantined(): void {
    this.#options.quarantine.hint();
    this.#options.loop.wake();
  }
}
