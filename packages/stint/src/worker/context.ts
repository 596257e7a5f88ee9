import type { Tx } from "../db/db.ts";
import { timestampMs } from "../db/timestamp.ts";
import type { JobDefinition } from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import type { Duration } from "../model/duration.ts";
import type { ClaimedJob, Fence } from "../model/job.ts";
import type { Completed } from "../model/outcome.ts";
import { scheduledSlotOf, type ScheduledSlot } from "../model/scheduled-slot.ts";
import type { Logger } from "../runtime/logger.ts";
import type { DependencyResult } from "../sql/flows.ts";
import type { AgainOptions } from "./again.ts";
import type { HandlerContext, WaitForSignal } from "./handler.ts";
import type { AttemptProgress } from "./progress.ts";
import type { AttemptSteps } from "./steps.ts";
import type { Plan } from "./plan.ts";

/** What a context needs of its attempt. */
export type AttemptOfContext = {
  readonly job: ClaimedJob;
  readonly maxAttempts: number;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  /** Made by the first use. */
  readonly steps: AttemptSteps;
  readonly progress: AttemptProgress;
  /** The same, refused in an atomic kind. */
  durable(what: string): AttemptProgress;
  extend(duration: Duration): number;
  complete(work: (tx: Tx) => unknown, tx: Tx | undefined): Promise<Completed>;
  again(next: AgainOptions): Promise<void>;
  /** Made when it is first read. */
  readonly plan: Plan;
  results(kind: string | null): Promise<DependencyResult[]>;
};

/**
 * What a handler gets. Everything is an own property, so that `{ ...context }` has it, too. The signal and the logger are accessors, and
 * made when they are read: an AbortController alone costs more than the rest of a short attempt.
 */
export class Context implements HandlerContext {
  readonly payload: unknown;
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly key: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly run: number;
  readonly tenant: string | null;
  readonly tags: readonly string[];
  readonly meta: Readonly<Record<string, unknown>>;
  readonly fence: Fence;
  readonly complete: HandlerContext["complete"];
  readonly again: HandlerContext["again"];
  readonly step: HandlerContext["step"];
  readonly sleep: HandlerContext["sleep"];
  readonly waitForSignal: WaitForSignal;
  readonly checkpoint: HandlerContext["checkpoint"];
  readonly lastCheckpoint: HandlerContext["lastCheckpoint"];
  readonly progress: HandlerContext["progress"];
  readonly log: HandlerContext["log"];
  readonly extend: HandlerContext["extend"];
  readonly continueWith: HandlerContext["continueWith"];
  readonly spawn: HandlerContext["spawn"];
  readonly waitForChildren: HandlerContext["waitForChildren"];
  readonly results: HandlerContext["results"];
  readonly createdAt: Date;
  readonly schedule: ScheduledSlot | null;
  declare readonly signal: AbortSignal;
  declare readonly logger: Logger;
  readonly #attempt: AttemptOfContext;

  constructor(attempt: AttemptOfContext, payload: unknown, tx: Tx | undefined) {
    const { job } = attempt;
    this.payload = payload;
    this.id = job.fence.job;
    this.kind = job.kind;
    this.queue = job.queue;
    this.key = job.key ?? job.fence.job;
    this.attempt = job.attempt;
    this.maxAttempts = attempt.maxAttempts;
    this.run = job.run;
    this.tenant = job.tenant;
    this.tags = job.tags;
    this.meta = job.meta;
    this.fence = job.fence;
    this.createdAt = new Date(timestampMs(job.createdAt));
    this.schedule = scheduledSlotOf(job.meta);
    // Returns the promise itself, which knows whether it is awaited.
    this.complete = (work) => attempt.complete(work, tx);
    this.again = (next) => attempt.again(next);
    this.step = (name, work) => attempt.steps.step(name, work);
    this.sleep = (until) => attempt.steps.sleep(until);
    this.waitForSignal = (name, options) => attempt.steps.waitForSignal(name, options);
    this.checkpoint = (value) => attempt.durable("checkpoint").checkpoint(value);
    this.lastCheckpoint = async <T>() =>
      (await attempt.durable("lastCheckpoint").lastCheckpoint()) as T | undefined;
    this.progress = (fraction, note) => attempt.progress.progress(fraction, note);
    this.log = (text) => attempt.progress.log(text);
    this.extend = (duration) => attempt.extend(duration);
    this.continueWith = (next, input, options) => attempt.plan.continueWith(next, input, options);
    this.spawn = (child, input, options) => attempt.plan.spawn(child, input, options);
    this.waitForChildren = (options) => attempt.plan.waitForChildren(options);
    this.results = async (definition?: JobDefinition) =>
      (await attempt.results(definition?.kind ?? null)) as never;
    this.#attempt = attempt;
    // Each costs as much as all the functions above.
    Object.defineProperty(this, "signal", Context.#signal);
    Object.defineProperty(this, "logger", Context.#logger);
    if (tx !== undefined) Object.defineProperty(this, "tx", { value: tx, enumerable: true });
  }

  static readonly #signal = own((context) => context.#attempt.signal);
  static readonly #logger = own((context) => context.#attempt.logger);

  /** Of a kind that is not atomic. Not an own property: reading it throws, and a spread reads every own property. */
  get tx(): Tx {
    throw new InvalidOptionError(
      "tx",
      `is only there for a kind defined with atomic: true; ${this.kind} is not. Use complete(…)`,
    );
  }
}

function own(read: (context: Context) => unknown): PropertyDescriptor & ThisType<Context> {
  return {
    enumerable: true,
    get() {
      return read(this);
    },
  };
}
