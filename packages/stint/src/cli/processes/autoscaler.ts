import type { Capacity, PoolCapacity } from "../../inspect/capacity.ts";
import type { Inspector, WorkerView } from "../../inspect/types.ts";
import { ScalingDecisions, type AutoscaleBounds, type ScalingDecision } from "../../model/autoscaling.ts";
import { plural } from "../../model/figures.ts";
import type { LimitedBy } from "../../model/scaling.ts";
import { monotonicMs } from "../../runtime/monotonic.ts";
import { jitter, settledWithin, sleep } from "../../runtime/sleep.ts";
import { say, type Output } from "../output.ts";

/** The processes that an autoscaler changes. */
export type ScaledProcesses = {
  /** How many there are, also those that are being started; undefined: nothing is started, the live workers count. */
  readonly size: number | undefined;
  readonly workerIds: readonly string[];
  resize(size: number): void;
};

export type AutoscalerOptions = {
  readonly out: Output;
  readonly processes: ScaledProcesses;
  readonly inspector: Pick<Inspector, "workers">;
  readonly capacity: () => Promise<Capacity>;
  readonly bounds: AutoscaleBounds;
  readonly everyMs: number;
};

/** How many processes are wanted here, and the pool that wants the most. */
type Demand = { readonly wanted: number; readonly present: number; readonly pool: PoolCapacity | undefined };

/** A reading that takes longer counts as failed. */
const readWithinMs = 15_000;

/** Starts and stops the processes of a group by the recommendation. While the database cannot be reached, their number stays. */
export class Autoscaler {
  readonly #options: AutoscalerOptions;
  readonly #decisions: ScalingDecisions;
  /** Workers of this group, also of processes that have died: their rows are counted as live for a while. */
  readonly #own = new Set<string>();
  #reading: Promise<Demand> | undefined;
  #lastReported: string | undefined;

  constructor(options: AutoscalerOptions) {
    this.#options = options;
    this.#decisions = new ScalingDecisions(options.bounds, readWithinMs + 3 * options.everyMs);
  }

  /** Decides until `stopping`. Survives any outage. */
  async run(stopping: AbortSignal): Promise<void> {
    while (!stopping.aborted) {
      await this.#decide(stopping);
      await sleep(jitter(this.#options.everyMs), stopping);
    }
  }

  async #decide(stopping: AbortSignal): Promise<void> {
    const { processes } = this.#options;
    // One at a time: a server that does not respond must not collect them.
    this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
    const demand = await this.#settled(this.#reading, stopping);
    if (stopping.aborted) return;
    if (demand instanceof Error) {
      this.#decisions.unknown();
      return this.#reportOutage(demand);
    }
    const { present, wanted } = demand;
    const decision = this.#decisions.next(present, wanted, monotonicMs());
    this.#report(demand, decision);
    if (decision.processes !== present) processes.resize(decision.processes);
  }

  async #settled(reading: Promise<Demand>, stopping: AbortSignal): Promise<Demand | Error> {
    const read = reading.catch((error: unknown) =>
      error instanceof Error ? error : new Error(String(error)),
    );
    const isRead = await settledWithin(readWithinMs, read, stopping);
    return isRead ? await read : new Error("it does not respond");
  }

  /**
   * The recommendation counts the workers of every machine. Those that are not of this group do their part, so two groups share the work.
   * The workers are read before the recommendation: one that starts in between counts as another machine's, which starts too few processes for a
   * moment, and not too many.
   */
  async #read(): Promise<Demand> {
    const { processes, inspector, capacity } = this.#options;
    for (const id of processes.workerIds) this.#own.add(id);
    const rows = await inspector.workers();
    const { pools } = await capacity();
    const [first] = pools;
    if (processes.size === undefined)
      return {
        wanted: first?.recommended ?? 0,
        present: Math.max(0, ...pools.map(({ workers }) => workers)),
        pool: first,
      };
    const known = new Set([...rows.map(({ id }) => id), ...processes.workerIds]);
    for (const id of this.#own) if (!known.has(id)) this.#own.delete(id);
    const own = rows.filter((row) => this.#own.has(row.id) && isCounted(row)).length;
    const wanted = (pool: PoolCapacity): number => pool.recommended - Math.max(0, pool.workers - own);
    const most = pools.reduce<PoolCapacity | undefined>(
      (most, pool) => (most === undefined || wanted(pool) > wanted(most) ? pool : most),
      undefined,
    );
    return { wanted: most === undefined ? 0 : wanted(most), present: processes.size, pool: most };
  }

  #report({ wanted, present, pool }: Demand, { processes, heldBy }: ScalingDecision): void {
    const action = processes > present ? "up" : processes < present ? "down" : "keep";
    const { factor, name, text } = pool?.limitedBy ?? idle;
    const reason = `${text}${heldTexts[heldBy ?? "none"](wanted, this.#options.bounds)}`;
    // The figures of a reason change all the time; the decision does not.
    if (!this.#isNew([action, processes, heldBy, factor, name])) return;
    this.#write(
      action === "keep" ? `Keeping ${processCount(present)}` : `${present} → ${processCount(processes)}`,
      {
        action,
        before: present,
        processes,
        wanted,
        pool: pool?.pool ?? null,
        heldBy,
        limitedBy: factor,
        name,
        reason,
      },
    );
  }

  #reportOutage(error: Error): void {
    const reason = `The load cannot be read: ${error.message}`;
    const { size } = this.#options.processes;
    if (!this.#isNew(["outage", size])) return;
    this.#write(`Keeping ${size === undefined ? "the processes" : processCount(size)}`, {
      action: "keep",
      before: size ?? null,
      processes: size ?? null,
      wanted: null,
      pool: null,
      heldBy: "outage",
      limitedBy: null,
      name: null,
      reason,
    });
  }

  #isNew(decision: readonly unknown[]): boolean {
    const key = JSON.stringify(decision);
    const isNew = key !== this.#lastReported;
    this.#lastReported = key;
    return isNew;
  }

  #write(text: string, fields: { readonly reason: string } & Readonly<Record<string, unknown>>): void {
    const { out, processes } = this.#options;
    const isDry = processes.size === undefined;
    if (out.json) out.event({ event: "decision", dryRun: isDry, ...fields });
    else out.line(say`${isDry ? "Dry run: " : ""}${text}. ${fields.reason}.`);
  }
}

const idle: LimitedBy = { factor: "none", name: null, text: "The workers keep up" };

const heldTexts: Record<
  NonNullable<ScalingDecision["heldBy"]> | "none",
  (wanted: number, bounds: AutoscaleBounds) => string
> = {
  none: () => "",
  min: (_, { min }) => `; --min is ${min}`,
  max: (wanted, { max }) => `; ${wanted} are wanted, --max is ${max}`,
  step: (wanted) => `; ${wanted} are wanted, the others follow`,
  "cool-down": (wanted) => `; ${Math.max(0, wanted)} would be enough, the cool-down is not over`,
};

/** As in the recommendation: live, and not draining. */
function isCounted({ unresponsive, draining }: WorkerView): boolean {
  return !unresponsive && !draining;
}

function processCount(count: number): string {
  return plural(count, "process", "processes");
}
