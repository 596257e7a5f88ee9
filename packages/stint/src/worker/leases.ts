import { performance } from "node:perf_hooks";
import { Worker as Thread } from "node:worker_threads";
import type { Connection } from "../db/connection.ts";
import type { ClaimedJob, Fence } from "../model/job.ts";
import type { Logger } from "../runtime/logger.ts";
import { Recovery } from "../runtime/recovery.ts";
import { Held, type HeldJob } from "./held.ts";
import type { FromThread, HeldClaim, LeaseThreadData, ToThread } from "./lease-messages.ts";

const pulseMs = 100;

export type LeaseListener = {
  /** The lease may be somebody else's by now. */
  lost(fence: Fence): void;
  cancelled(fence: Fence): void;
  /** Jobs that waited for a slot are not to be begun; those that were still ours went back to these queues. */
  handedBack(queues: readonly string[]): void;
  blocked(ms: number, kinds: readonly string[]): void;
};

export type LeasesOptions = {
  connection: Connection;
  schema: string;
  prepare: boolean;
  applicationName: string;
  wake: boolean;
  /** How long a claimed job may wait for a slot before it is released. */
  prefetchMs: number;
  logger: Logger;
  listener: LeaseListener;
};

/** The main thread's side of the lease thread: says what to keep, hears what was lost. */
export class Leases {
  readonly #options: LeasesOptions;
  readonly #pulse = new Float64Array(new SharedArrayBuffer(16));
  readonly #held = new Set<Held>();
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
    const { connection, schema, prepare, applicationName, wake, prefetchMs } = this.#options;
    const data: LeaseThreadData = {
      connection,
      schema,
      prepare,
      applicationName,
      wake,
      prefetchMs,
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

  /**
   * Keep the leases of one claim until each is over, none longer than its timeout. The jobs wait; each is to be begun,
   * or withdrawn. `sentAt` is from before the claim was sent.
   */
  hold(jobs: readonly ClaimedJob[], timeoutMs: (job: ClaimedJob) => number, sentAt: number): HeldJob[] {
    const until = Leases.now() + this.#options.prefetchMs;
    const held = new Held(
      {
        leaseId: jobs[0]?.fence.leaseId ?? "",
        sentAt,
        firstSerial: this.#serial + 1,
        jobs: jobs.map((job) => job.fence.job),
        epochs: jobs.map((job) => job.fence.epoch),
        kinds: jobs.map((job) => job.kind),
        leaseMs: jobs.map((job) => job.leaseMs),
        renewUntil: jobs.map((job) => until + timeoutMs(job)),
        stages: new Uint8Array(new SharedArrayBuffer(jobs.length)),
      },
      (over) => this.#release(over),
    );
    this.#serial += jobs.length;
    this.#held.add(held);
    this.#startPulse();
    this.#post({ type: "hold", claims: [held.claim] });
    return jobs.map((job, index) => ({ job, held, index }));
  }

  #release(held: Held): void {
    this.#held.delete(held);
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
        listener.lost(message.fence);
        break;
      case "cancelled":
        listener.cancelled(message.fence);
        break;
      case "handed-back":
        listener.handedBack(message.queues);
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
      this.#post({ type: "hold", claims: [...this.#held].map(({ claim }) => asRenewed(claim)) });
    }, this.#recovery.next());
  }

  #post(message: ToThread): void {
    this.#thread?.postMessage(message);
  }
}

/** A claim that is still here has been renewed by the thread that ended, when it was due; it is due again now. */
function asRenewed(claim: HeldClaim): HeldClaim {
  const dueSince = Leases.now() - (Math.min(...claim.leaseMs) * 2) / 3;
  return { ...claim, sentAt: Math.max(claim.sentAt, dueSince) };
}
