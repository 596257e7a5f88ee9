import { Worker as Thread } from "node:worker_threads";
import type { Connection } from "../db/connection.ts";
import { LeasesUnavailableError } from "../errors.ts";
import type { ClaimedJob, Fence } from "../model/job.ts";
import type { Logger } from "../runtime/logger.ts";
import { monotonicMs } from "../runtime/monotonic.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { ClaimChannel, stageMemory } from "./claim-channel.ts";
import { ClaimLeases, type LeasedJob } from "./claim-leases.ts";
import { code } from "./lease-thread-code.js";
import type { FromThread, LeasedClaim, LeaseThreadData, ToThread } from "./lease-messages.ts";

const heartbeatMs = 100;
/** How long a start waits for the first renewal: two attempts to connect, on a busy machine. */
const readyWithinMs = 15_000;

export type LeaseListener = {
  /** Another worker may own the job by now. */
  lost(fence: Fence): void;
  cancelled(fence: Fence): void;
  /** Waiting jobs were released and must not begin. Those that were still ours are ready again in these queues. */
  released(queues: readonly string[]): void;
  blocked(ms: number, kinds: readonly string[]): void;
  /** Leases can be renewed again. */
  renewable(): void;
};

export type LeasesOptions = {
  connection: Connection;
  schema: string;
  prepare: boolean | undefined;
  applicationName: string;
  wake: boolean;
  /** How long a claimed job may wait for a slot before it is released. */
  prefetchMs: number;
  logger: Logger;
  listener: LeaseListener;
};

/** The main thread's side of the lease thread: sends it the leases to keep, and receives those that were lost. */
export class Leases {
  readonly #options: LeasesOptions;
  readonly #heartbeat = new Float64Array(new SharedArrayBuffer(16));
  readonly #held = new Set<ClaimLeases>();
  readonly #retryDelay = new RetryDelay();
  #thread: Thread | undefined;
  #claims: ClaimChannel | undefined;
  #renewable = false;
  #starting: { resolve: () => void; reject: (error: Error) => void; lastFailure: string } | undefined;
  #restarting: NodeJS.Timeout | undefined;
  #heartbeatTimer: NodeJS.Timeout | undefined;
  #stopping = false;
  #serial = 0;

  constructor(options: LeasesOptions) {
    this.#options = options;
  }

  /** Process-wide monotonic milliseconds, the same on both threads. */
  static now(): number {
    return monotonicMs();
  }

  /** Whether the last renewal succeeded. A job claimed while this is false may lose its lease. */
  get renewable(): boolean {
    return this.#renewable;
  }

  /**
   * Start the thread. Resolves once it has reached the database and may renew.
   *
   * @throws {LeasesUnavailableError} The thread does not run, or the database refuses its renewals.
   */
  async start(): Promise<void> {
    this.#stopping = false;
    const ready = new Promise<void>((resolve, reject) => {
      this.#starting = { resolve, reject, lastFailure: "the thread did not respond" };
    });
    const overdue = setTimeout(() => this.#refuse(), readyWithinMs);
    try {
      this.#startThread();
      await ready;
    } catch (error) {
      await this.stop();
      throw error instanceof LeasesUnavailableError ? error : unavailable(messageOf(error), error);
    } finally {
      clearTimeout(overdue);
      this.#starting = undefined;
    }
  }

  #refuse(failure = this.#starting?.lastFailure ?? "", cause?: unknown): void {
    this.#starting?.reject(unavailable(failure, cause));
  }

  #startThread(): void {
    const { connection, schema, prepare, applicationName, wake, prefetchMs } = this.#options;
    const asksPassword = typeof connection === "object" && typeof connection.password === "function";
    const claims = new ClaimChannel();
    const data: LeaseThreadData = {
      connection: asksPassword ? { ...connection, password: "" } : connection,
      asksPassword,
      schema,
      prepare,
      applicationName,
      wake,
      prefetchMs,
      heartbeat: this.#heartbeat.buffer,
      claims: claims.port,
      asleep: claims.asleep,
    };
    // From a text, because an application bundle has no such file.
    const thread = new Thread(code, {
      eval: true,
      workerData: data,
      transferList: [claims.port],
      name: "stint-leases",
      // Without the flags of the application: its loaders would run in here, too, and may need the main thread.
      execArgv: [],
    });
    this.#thread = thread;
    this.#claims = claims;
    thread.on("message", (message: FromThread) => this.#receive(message));
    thread.on("error", (error) => {
      if (this.#starting !== undefined) this.#refuse(messageOf(error), error);
      else this.#options.logger.error({ err: error }, "the lease thread failed");
    });
    thread.on("exit", () => this.#exited());
  }

  /**
   * Keep the leases of one claim until each is over, none longer than its timeout. The jobs wait; each is to be begun,
   * or released. `sentAt` is from before the claim was sent.
   */
  hold(jobs: readonly ClaimedJob[], timeoutMs: (job: ClaimedJob) => number, sentAt: number): LeasedJob[] {
    const until = Leases.now() + this.#options.prefetchMs;
    const leases = new ClaimLeases(
      {
        leaseId: jobs[0]?.fence.leaseId ?? "",
        sentAt,
        firstSerial: this.#serial + 1,
        jobs: jobs.map((job) => job.fence.job),
        epochs: jobs.map((job) => job.fence.epoch),
        kinds: jobs.map((job) => job.kind),
        leaseMs: jobs.map((job) => job.leaseMs),
        renewUntil: jobs.map((job) => until + timeoutMs(job)),
        ...stageMemory.allocate(jobs.length),
      },
      (over) => this.#forget(over),
      ({ claim }, index) =>
        this.#post({
          type: "extend",
          serial: claim.firstSerial + index,
          renewUntil: claim.renewUntil[index] ?? 0,
        }),
    );
    this.#serial += jobs.length;
    this.#held.add(leases);
    this.#startHeartbeat();
    this.#send(leases.claim);
    return jobs.map((job, index) => ({ job, leases, index }));
  }

  #forget(leases: ClaimLeases): void {
    this.#held.delete(leases);
    if (this.#held.size > 0) return;
    clearInterval(this.#heartbeatTimer);
    this.#heartbeatTimer = undefined;
  }

  /** Renew every lease now: one of their jobs may have been cancelled. */
  renewNow(): void {
    if (this.#held.size > 0) this.#post({ type: "renew" });
  }

  /** Note whose handler is on the stack, so that a handler that blocks the event loop can be named. */
  inHandler<T>(serial: number, call: () => T): T {
    this.#heartbeat[1] = serial;
    try {
      return call();
    } finally {
      this.#heartbeat[1] = 0;
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#heartbeatTimer);
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

  #startHeartbeat(): void {
    if (this.#heartbeatTimer !== undefined) return;
    const send = (): void => {
      this.#heartbeat[0] = Leases.now();
    };
    send();
    this.#heartbeatTimer = setInterval(send, heartbeatMs);
  }

  #receive(message: FromThread): void {
    const { listener, logger } = this.#options;
    switch (message.type) {
      case "password-wanted":
        void this.#sendPassword();
        break;
      case "ready":
        this.#renewable = true;
        this.#retryDelay.reset();
        this.#starting?.resolve();
        listener.renewable();
        break;
      case "lost":
        listener.lost(message.fence);
        break;
      case "cancelled":
        listener.cancelled(message.fence);
        break;
      case "released":
        listener.released(message.queues);
        break;
      case "blocked":
        listener.blocked(message.ms, message.kinds);
        break;
      case "failed":
        this.#renewable = false;
        if (this.#starting === undefined) {
          const text = "could not renew leases; no jobs are claimed until a renewal succeeds";
          logger.warn({ detail: message.message }, text);
        } else {
          this.#starting.lastFailure = message.message;
          if (!message.transient) this.#refuse();
        }
        break;
    }
  }

  #exited(): void {
    this.#thread = undefined;
    this.#claims?.close();
    this.#claims = undefined;
    this.#renewable = false;
    if (this.#starting !== undefined) return this.#refuse("the thread ended as soon as it was started");
    if (this.#stopping) return;
    const { logger } = this.#options;
    logger.error({}, "the lease thread ended; no jobs are claimed until it runs again");
    this.#restartSoon();
  }

  /** Without the thread every lease would run out. A new thread takes over the leases of the old one. */
  #restartSoon(): void {
    this.#restarting = setTimeout(() => {
      try {
        this.#startThread();
        for (const { claim } of this.#held) this.#send(asRenewed(claim));
      } catch (error) {
        this.#options.logger.error({ err: error }, "could not start the lease thread; trying again");
        this.#restartSoon();
      }
    }, this.#retryDelay.next());
  }

  async #sendPassword(): Promise<void> {
    const { connection, logger } = this.#options;
    const password = typeof connection === "object" ? connection.password : undefined;
    try {
      this.#post({
        type: "password",
        password: typeof password === "function" ? await password() : password,
      });
    } catch (error) {
      logger.warn({ err: error }, "the password function threw; the lease thread uses the last password");
      this.#post({ type: "password", password: undefined });
    }
  }

  #send(claim: LeasedClaim): void {
    if (this.#claims?.send(claim) === true) this.#post({ type: "claimed" });
  }

  #post(message: ToThread): void {
    this.#thread?.postMessage(message);
  }
}

/** The thread that ended has renewed the leases that were due. At the latest now they are due again. */
function asRenewed(claim: LeasedClaim): LeasedClaim {
  const dueSince = Leases.now() - (Math.min(...claim.leaseMs) * 2) / 3;
  return { ...claim, sentAt: Math.max(claim.sentAt, dueSince) };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function unavailable(detail: string, cause?: unknown): LeasesUnavailableError {
  return new LeasesUnavailableError(detail, cause === undefined ? undefined : { cause });
}
