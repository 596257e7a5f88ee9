import { formatMs } from "../../model/figures.ts";
import { RetryDelay } from "../../runtime/retry-delay.ts";
import { settledWithin } from "../../runtime/sleep.ts";
import { deferred, type Deferred } from "../deferred.ts";
import { say, type Output } from "../output.ts";
import { exitCodes } from "../report-error.ts";
import type { Ending, WorkerProcess } from "./worker-process.ts";

export type ProcessGroupOptions = {
  readonly out: Output;
  readonly size: number;
  readonly start: (number: number) => WorkerProcess;
  /** During a restart: a new process that does not serve within this time has failed. Default: one minute. */
  readonly servesWithinMs?: number;
};

/** A number, and the process that has it now. */
export type Place = {
  readonly number: number;
  /** Added while the group ran, so its first start is no fault of the group's health. */
  readonly isAdded: boolean;
  process: WorkerProcess | undefined;
  /** Whether some process of this number has served. */
  hasServed: boolean;
  /** Whether the place was removed: its process drains, and no other follows. */
  isRemoved: boolean;
  /** Resolves when no further process is to be started here. */
  readonly over: Deferred;
  readonly retryDelay: RetryDelay;
};

/** A process that ran this long is not in a crash loop. */
const longLifeMs = 60_000;

/** Keeps worker processes running: restarts what dies, replaces them one by one, changes their number, and stops them together. */
export class ProcessGroup {
  readonly #options: ProcessGroupOptions;
  readonly #places: Place[] = [];
  readonly #serving = deferred<boolean>();
  readonly #stopped = deferred();
  /** Every process that has not ended, also those of removed places. */
  readonly #alive = new Map<WorkerProcess, Place>();
  #isStopping = false;
  #exitCode: number = exitCodes.ok;
  #rolling: Promise<void> | undefined;
  #rollAgain = false;

  constructor(options: ProcessGroupOptions) {
    this.#options = options;
    for (let number = 1; number <= options.size; number++) this.#places.push(newPlace(number, false));
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Without the places that were removed. */
  get places(): readonly Place[] {
    return this.#places;
  }

  /** Resolves to true once the first process serves, or to false if it never does. */
  get serving(): Promise<boolean> {
    return this.#serving.promise;
  }

  /** Ids of the workers in its processes, also of those that drain. */
  get workerIds(): readonly string[] {
    return [...this.#alive.keys()].flatMap(({ workerId }) => workerId ?? []);
  }

  /** Resolves with the exit code when every process has ended: after `stop`, or if the first process cannot serve at all. */
  async run(): Promise<number> {
    const [first, ...others] = this.#places;
    if (first === undefined) return exitCodes.ok;
    // A config or a database that cannot work is reported once, and not by every process.
    const serves = await this.#start(first).serving;
    this.#serving.resolve(serves);
    if (!serves) {
      const ending = await first.process?.ended;
      if (!this.#isStopping) return ending !== undefined && "code" in ending ? ending.code : exitCodes.failed;
    }
    for (const place of [first, ...others]) void this.#keep(place);
    await this.#stopped.promise;
    await this.#rolling;
    await Promise.all([...this.#alive.keys()].map(async ({ ended }) => await ended));
    return this.#exitCode;
  }

  /** Drain every process. A second call cuts the drains short. */
  stop(): void {
    const hurry = this.#isStopping;
    this.#isStopping = true;
    this.#stopped.resolve();
    for (const { over } of this.#places) over.resolve();
    for (const process of this.#alive.keys()) process.stop(hurry);
  }

  /** Change the number of processes, once the first one serves. Processes beyond it drain, those that do not serve first. */
  resize(size: number): void {
    if (this.#isStopping) return;
    while (this.#places.length < size) {
      const place = newPlace(this.#freeNumber(), true);
      this.#places.push(place);
      void this.#keep(place);
    }
    const spare = [...this.#places].sort(
      (a, b) => Number(isServing(a)) - Number(isServing(b)) || b.number - a.number,
    );
    for (const place of spare.slice(0, this.#places.length - size)) this.#remove(place);
  }

  /** Replace the processes one by one: the new one serves before the old one drains. */
  restart(): void {
    if (this.#isStopping) return;
    this.#rollAgain = true;
    this.#rolling ??= this.#roll().finally(() => (this.#rolling = undefined));
  }

  async #roll(): Promise<void> {
    while (this.#rollAgain && !this.#isStopping) {
      this.#rollAgain = false;
      this.#report("restarting", "Restarting the processes one by one");
      // A copy: places may be removed meanwhile.
      const places = this.#places.slice();
      for (const place of places) if (!(await this.#replace(place))) break;
    }
  }

  /** Returns false if the restart must not continue. */
  async #replace(place: Place): Promise<boolean> {
    if (place.isRemoved) return true;
    const fresh = this.#spawn(place);
    // Code of the config may wait for ever: no later restart would begin.
    const isDecided = await settledWithin(this.#options.servesWithinMs ?? 60_000, fresh.serving);
    if (!isDecided || !(await fresh.serving)) {
      fresh.stop();
      if (!this.#isStopping)
        this.#report(
          "not-restarted",
          `The new process ${place.number} did not start; the old processes stay`,
        );
      return false;
    }
    if (this.#isStopping) return false;
    // The place was removed while the new process started.
    const old = place.isRemoved ? fresh : place.process;
    if (!place.isRemoved) place.process = fresh;
    old?.stop();
    await old?.ended;
    return !this.#isStopping;
  }

  #remove(place: Place): void {
    this.#places.splice(this.#places.indexOf(place), 1);
    place.isRemoved = true;
    place.over.resolve();
    place.process?.stop();
  }

  /** Keep a process running in this place until the group stops or the place is removed. */
  async #keep(place: Place): Promise<void> {
    while (!this.#isStopping && !place.isRemoved) {
      const process = place.process ?? this.#start(place);
      const ending = await process.ended;
      // Replaced by a restart.
      if (place.process !== process) continue;
      place.process = undefined;
      if (this.#isStopping || place.isRemoved) return;
      if (performance.now() - process.startedAt > longLifeMs) place.retryDelay.reset();
      const delayMs = place.retryDelay.next();
      this.#reportEnd(place, ending, delayMs);
      await settledWithin(delayMs, place.over.promise);
    }
  }

  /** Lines show the number, so a process that still drains keeps its own. */
  #freeNumber(): number {
    const taken = new Set([...this.#places, ...this.#alive.values()].map((place) => place.number));
    let number = 1;
    while (taken.has(number)) number++;
    return number;
  }

  #start(place: Place): WorkerProcess {
    return (place.process = this.#spawn(place));
  }

  #spawn(place: Place): WorkerProcess {
    const process = this.#options.start(place.number);
    this.#alive.set(process, place);
    void process.serving.then((serves) => (place.hasServed ||= serves));
    void process.ended.then((ending) => {
      this.#alive.delete(process);
      const isClean = "code" in ending && ending.code === exitCodes.ok;
      if ((this.#isStopping || place.isRemoved) && !isClean) this.#endedBadly(place, process, ending);
    });
    return process;
  }

  #endedBadly({ number }: Place, { wasKilled }: WorkerProcess, ending: Ending): void {
    if (this.#isStopping) this.#exitCode = exitCodes.failed;
    const why = wasKilled ? "did not stop in time and was killed" : howItEnded(ending);
    this.#report("ended", `Process ${number} ${why}. Its jobs are rescued when their leases run out.`, {
      process: number,
      ...ending,
    });
  }

  #reportEnd({ number }: Place, ending: Ending, delayMs: number): void {
    const text = `Process ${number} ${howItEnded(ending)}; it is started again in ${formatMs(delayMs)}`;
    this.#report("ended", text, { process: number, ...ending, restartsInMs: delayMs });
  }

  #report(event: string, text: string, fields: Readonly<Record<string, unknown>> = {}): void {
    const { out } = this.#options;
    if (out.json) out.event({ event, ...fields });
    else out.line(say`${text}`);
  }
}

function newPlace(number: number, isAdded: boolean): Place {
  return {
    number,
    isAdded,
    process: undefined,
    hasServed: false,
    isRemoved: false,
    over: deferred(),
    retryDelay: new RetryDelay(Math.random, { baseMs: 500, capMs: 30_000 }),
  };
}

function isServing({ process }: Place): boolean {
  return process?.isServing === true;
}

function howItEnded(ending: Ending): string {
  return "signal" in ending ? `was killed by ${ending.signal}` : `ended with exit code ${ending.code}`;
}
