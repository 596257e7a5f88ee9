import { performance } from "node:perf_hooks";
import { Worker as Thread } from "node:worker_threads";
import type { Connection } from "../db/connection.ts";
import type { ClaimedJob, Fence } from "../model/job.ts";
import type { Logger } from "../runtime/logger.ts";
import { Recovery } from "../runtime/recovery.ts";
import type { FromThread, Held, LeaseThreadData, ToThread } from "./lease-messages.ts";

const pulseMs = 100;

export type LeaseListener = {
  /** The lease may be somebody else's by now. */
  lost(job: string, epoch: number): void;
  cancelled(job: string, epoch: number): void;
  blocked(ms: number, kinds: readonly string[]): void;
};

export type LeasesOptions = {
  connection: Connection;
  schema: string;
  prepare: boolean;
  applicationName: string;
  logger: Logger;
  listener: LeaseListener;
};

/** The main thread's side of the lease thread: says what to keep, hears what was lost. */
export class Leases {
  readonly #options: LeasesOptions;
  readonly #pulse = new Float64Array(new SharedArrayBuffer(16));
  readonly #held = new Map<string, Held>();
  readonly #recovery = new Recovery();
  #thread: Thread | undefined;
  #restarting: NodeJS.Timeout | undefined;
  #beat: NodeJS.Timeout | undefined;
  #stopping = false;
  #serial = 0;

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  /** Process-wide monotonic milliseconds, the same on both threads. */
  static now(): number {
    return performance.timeOrigin + performance.now();
  }

  start(): void {
    const { connection, schema, prepare, applicationName } = this.#options;
    const data: LeaseThreadData = {
      connection,
      schema,
      prepare,
      applicationName,
      pulse: this.#pulse.buffer,
    };
    this.#thread = new Thread(new URL("./lease-thread.js", import.meta.url), {
      workerData: data,
      name: "stint-leases",
      // Not the application's: a loader it was started with would run in here too, and may need the main thread.
      execArgv: [],
    });
    this.#thread.on("message", (message: FromThread) => this.#hear(message));
    this.#thread.on("error", (error) =>
      this.#options.logger.error({ err: error }, "the lease thread failed"),
    );
    this.#thread.on("exit", () => this.#restart());
  }

  /** Keep these leases until they are dropped, each no longer than its timeout. `sentAt` is from before the claim was sent. */
  hold(jobs: readonly { job: ClaimedJob; timeoutMs: number }[], sentAt: number): number[] {
    const at = Leases.now();
    const leases = jobs.map(({ job, timeoutMs }): Held => {
      this.#serial += 1;
      return {
        ...job.fence,
        kind: job.kind,
        serial: this.#serial,
        leaseMs: job.leaseMs,
        sentAt,
        renewUntil: at + timeoutMs,
      };
    });
    for (const lease of leases) this.#held.set(lease.job, lease);
    this.#startPulse();
    this.#post({ type: "hold", leases });
    return leases.map((lease) => lease.serial);
  }

  drop({ job, epoch }: Fence): void {
    // The same worker may hold the job again already, under a newer epoch.
    if (this.#held.get(job)?.epoch !== epoch) return;
    this.#held.delete(job);
    this.#post({ type: "drop", job, epoch });
    if (this.#held.size > 0) return;
    clearInterval(this.#beat);
    this.#beat = undefined;
  }

  /** Ask the database about every lease now, because somebody said that one of them was cancelled. */
  renewNow(): void {
    if (this.#held.size > 0) this.#post({ type: "renew" });
  }

  /** Remember whose handler is on the stack, so that a handler that never yields can be named. */
  inHandler<T>(serial: number, call: () => T): T {
    this.#pulse[1] = serial;
    try {
      return call();
    } finally {
      this.#pulse[1] = 0;
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#beat);
    clearTimeout(this.#restarting);
    const thread = this.#thread;
    if (thread === undefined) return;
    const gone = new Promise<void>((resolve) => {
      thread.once("exit", () => resolve());
    });
    this.#post({ type: "stop" });
    const hurry = setTimeout(() => void thread.terminate(), 1_000);
    await gone;
    clearTimeout(hurry);
  }

  #startPulse(): void {
    if (this.#beat !== undefined) return;
    const beat = (): void => {
      this.#pulse[0] = Leases.now();
    };
    beat();
    this.#beat = setInterval(beat, pulseMs);
  }

  #hear(message: FromThread): void {
    const { listener, logger } = this.#options;
    switch (message.type) {
      case "lost":
        listener.lost(message.job, message.epoch);
        break;
      case "cancelled":
        listener.cancelled(message.job, message.epoch);
        break;
      case "blocked":
        listener.blocked(message.ms, message.kinds);
        break;
      case "trouble":
        logger.warn({ detail: message.message }, "could not renew leases; trying again");
        break;
    }
  }

  /** Without its thread every lease would run out; a new one takes over what the old one held. */
  #restart(): void {
    this.#thread = undefined;
    if (this.#stopping) return;
    this.#options.logger.error({}, "the lease thread ended; starting it again");
    this.#restarting = setTimeout(() => {
      this.start();
      this.#post({ type: "hold", leases: [...this.#held.values()] });
    }, this.#recovery.next());
  }

  #post(message: ToThread): void {
    this.#thread?.postMessage(message);
  }
}
