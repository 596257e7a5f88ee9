import { formatMs } from "../../model/figures.ts";
import { RetryDelay } from "../../runtime/retry-delay.ts";
import { settledWithin } from "../../runtime/sleep.ts";
import { deferred } from "../deferred.ts";
import { say, type Output } from "../output.ts";
import { exitCodes } from "../report-error.ts";
import type { Ending, WorkerProcess } from "./worker-process.ts";

export type ProcessGroupOptions = {
  readonly out: Output;
  readonly size: number;
  readonly start: (number: number) => WorkerProcess;
};

/** One of the numbers 1 to N, and the process that has it now. */
export type Place = {
  readonly number: number;
  process: WorkerProcess | undefined;
  /** Whether some process of this number has served. */
  hasServed: boolean;
  readonly retryDelay: RetryDelay;
};

/** A process that ran this long is not in a crash loop. */
const longLifeMs = 60_000;

/** Keeps N worker processes running: restarts what dies, replaces them one by one, and stops them together. */
export class ProcessGroup {
  readonly places: readonly Place[];
  readonly #options: ProcessGroupOptions;
  readonly #stopped = deferred();
  readonly #alive = new Set<WorkerProcess>();
  #isStopping = false;
  #exitCode: number = exitCodes.ok;
  #rolling: Promise<void> | undefined;
  #rollAgain = false;

  constructor(options: ProcessGroupOptions) {
    this.#options = options;
    this.places = Array.from({ length: options.size }, (_, index) => ({
      number: index + 1,
      process: undefined,
      hasServed: false,
      retryDelay: new RetryDelay(Math.random, { baseMs: 500, capMs: 30_000 }),
    }));
  }

  get isStopping(): boolean {
    return this.#isStopping;
  }

  /** Resolves with the exit code when every process has ended: after `stop`, or if the first process cannot serve at all. */
  async run(): Promise<number> {
    const [first, ...others] = this.places;
    if (first === undefined) return exitCodes.ok;
    // A config or a database that cannot work is reported once, and not by every process.
    if (!(await this.#start(first).serving)) {
      const ending = await first.process?.ended;
      if (!this.#isStopping) return ending !== undefined && "code" in ending ? ending.code : exitCodes.failed;
    }
    await Promise.all(
      [first, ...(this.#isStopping ? [] : others)].map(async (place) => await this.#keep(place)),
    );
    await this.#rolling;
    await Promise.all([...this.#alive].map(async ({ ended }) => await ended));
    return this.#exitCode;
  }

  /** Drain every process. A second call cuts the drains short. */
  stop(): void {
    const hurry = this.#isStopping;
    this.#isStopping = true;
    this.#stopped.resolve();
    for (const process of this.#alive) process.stop(hurry);
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
      for (const place of this.places) if (!(await this.#replace(place))) break;
    }
  }

  /** Returns false if the restart must not go on. */
  async #replace(place: Place): Promise<boolean> {
    const fresh = this.#spawn(place);
    if (!(await fresh.serving)) {
      if (!this.#isStopping)
        this.#report(
          "not-restarted",
          `The new process ${place.number} did not start; the old processes stay`,
        );
      return false;
    }
    if (this.#isStopping) return false;
    const old = place.process;
    place.process = fresh;
    old?.stop();
    await old?.ended;
    return !this.#isStopping;
  }

  /** Keep a process running in this place until the group stops. */
  async #keep(place: Place): Promise<void> {
    while (!this.#isStopping) {
      const process = place.process ?? this.#start(place);
      const ending = await process.ended;
      // Replaced by a restart.
      if (place.process !== process) continue;
      place.process = undefined;
      if (this.#isStopping) return;
      if (performance.now() - process.startedAt > longLifeMs) place.retryDelay.reset();
      const delayMs = place.retryDelay.next();
      this.#reportEnd(place, ending, delayMs);
      await settledWithin(delayMs, this.#stopped.promise);
    }
    await place.process?.ended;
  }

  #start(place: Place): WorkerProcess {
    return (place.process = this.#spawn(place));
  }

  #spawn(place: Place): WorkerProcess {
    const process = this.#options.start(place.number);
    this.#alive.add(process);
    void process.serving.then((serves) => (place.hasServed ||= serves));
    void process.ended.then((ending) => {
      this.#alive.delete(process);
      const isClean = "code" in ending && ending.code === exitCodes.ok;
      if (this.#isStopping && !isClean) this.#endedBadly(place, process, ending);
    });
    return process;
  }

  #endedBadly({ number }: Place, { wasKilled }: WorkerProcess, ending: Ending): void {
    this.#exitCode = exitCodes.failed;
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

function howItEnded(ending: Ending): string {
  return "signal" in ending ? `was killed by ${ending.signal}` : `ended with exit code ${ending.code}`;
}
