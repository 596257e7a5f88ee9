import { Semaphore } from "../db/semaphore.ts";
import type { Listener } from "../db/listener.ts";
import type { ClaimOrderSetting } from "../sql/claim-order.ts";
import type { Vitals } from "../sql/series.ts";
import {
  heartbeat,
  forgetWorker,
  recordStop,
  setWorkerPools,
  type StopFigures,
  type WorkerInfo,
  type WorkerState,
} from "../sql/workers.ts";
import type { WorkerDeps } from "./deps.ts";
import type { ResolvedWorkerOptions } from "./options.ts";
import { infoOf, register } from "./registration.ts";

export type WorkerRowOptions = {
  readonly deps: Pick<WorkerDeps, "db" | "queues" | "dependencies" | "version" | "maxResultBytes" | "notify">;
  readonly id: string;
  readonly options: ResolvedWorkerOptions;
  readonly listener: () => Pick<Listener, "listening"> | undefined;
  /** Whether no pool has room, so that a wake could not be followed. */
  readonly isSaturated: () => boolean;
  readonly isDraining: () => boolean;
  readonly isAsleep: () => boolean;
  /** The limits of queues, kinds and tenants that are in force. */
  readonly onLimits: (rules: readonly string[]) => void;
  /** The queues that are claimed in another order than by priority and time. */
  readonly onClaimOrders: (orders: readonly ClaimOrderSetting[]) => void;
  readonly vitals: () => Vitals;
};

/** The worker's row in the database: what it serves, that it lives, and whether enqueuers should send it wakes. */
export class WorkerRow {
  readonly info: WorkerInfo;
  readonly #options: WorkerRowOptions;
  /** One update at a time: an older state must not overwrite a newer one. */
  readonly #updates = new Semaphore(1);
  #wantsWakes = false;
  #wakesMissing = false;

  constructor(options: WorkerRowOptions) {
    this.#options = options;
    this.info = infoOf(options.id, options.deps.version, options.options);
  }

  /** Whether the row asks enqueuers for wakes. */
  get wantsWakes(): boolean {
    return this.#wantsWakes;
  }

  /** Whether every wake reaches this worker, so that polling is only a safety net. */
  get receivesWakes(): boolean {
    return this.#options.listener()?.listening === true && !this.#wakesMissing;
  }

  /** Returns whether anything is paused. */
  async register(): Promise<boolean> {
    const { deps, options, onLimits, onClaimOrders } = this.#options;
    const { wakesMissing, limits, paused, orders } = await register(deps, this.info, options);
    this.#wakesMissing = wakesMissing;
    onLimits(limits);
    onClaimOrders(orders);
    return paused;
  }

  /** Write the state of the worker. False: its row is gone. */
  async update(state: () => WorkerState = () => this.#state()): Promise<boolean> {
    const { deps, id } = this.#options;
    return await this.#updates.run(async () => await heartbeat(deps.db, id, state()));
  }

  /** The pool of these queues has so many slots now. */
  async setSlots(queues: readonly string[], slots: number): Promise<void> {
    const { deps, id } = this.#options;
    for (const queue of queues) this.info.pools[queue] = slots;
    await this.#updates.run(async () => await setWorkerPools(deps.db, id, this.info.pools));
  }

  /** Ask enqueuers for wakes. True if the row did not ask before, so a wake may have been missed. */
  async askForWakes(): Promise<boolean> {
    if (this.#wantsWakes || this.#options.listener()?.listening !== true) return false;
    await this.update(() => ({ listening: true }));
    this.#wantsWakes = true;
    return true;
  }

  async delete(): Promise<void> {
    const { deps, id } = this.#options;
    await forgetWorker(deps.db, id);
  }

  /** The worker has stopped: delete its row, and keep how the stop went. */
  async stopped(stop: StopFigures): Promise<void> {
    const { deps, id } = this.#options;
    await recordStop(deps.db, id, stop);
  }

  #state(): WorkerState {
    const { listener, isSaturated, isDraining, isAsleep, vitals } = this.#options;
    const draining = isDraining();
    // A worker without room could not follow a wake. Until it has room again, enqueuers need not send any.
    this.#wantsWakes = listener()?.listening === true && !isSaturated() && !draining;
    return { listening: this.#wantsWakes, draining, asleep: isAsleep(), vitals: vitals() };
  }
}
