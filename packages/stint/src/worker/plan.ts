import { toMember, type Dependency } from "../client/after.ts";
import type { Enqueued } from "../client/entries.ts";
import { requireDefinition } from "../client/kinds.ts";
import { prepareRow, type EnqueueOptions } from "../client/prepare.ts";
import { shapingKeys } from "../client/shaping.ts";
import { traced } from "../client/traced.ts";
import type { JobDefinition, JobTypes } from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import type { ClaimedJob } from "../model/job.ts";
import {
  continued,
  isOutcome,
  waitForChildren,
  type Continued,
  type WaitForChildren,
} from "../model/outcome.ts";
import { isThenable } from "../model/standard-schema.ts";
import type { Telemetry } from "../model/telemetry.ts";
import { newId } from "../runtime/new-id.ts";
import { withPayload, type EncodedRow, type OnFailure } from "../sql/enqueue.ts";

/** Options of a job that is enqueued when its predecessor or parent settles. Its `delay` counts from then. */
export type FollowOptions = EnqueueOptions & {
  id?: never;
  dedupe?: never;
  debounce?: never;
  throttle?: never;
};

/** What a plan needs of its worker. */
export type PlanDeps = { readonly maxResultBytes: number; readonly telemetry: Telemetry | undefined };

type Prepared = EncodedRow | Promise<EncodedRow>;

/**
 * What a handler asks for with its outcome: a continuation, and children. Nothing is written before the attempt is settled, and then all of it in
 * the same statement. An attempt that fails leaves nothing behind, so that a retry cannot double it.
 */
export class Plan {
  readonly #job: ClaimedJob;
  readonly #deps: PlanDeps;
  readonly #children: Prepared[] = [];
  #next: Prepared | undefined;
  #wait: OnFailure | undefined;

  constructor(job: ClaimedJob, deps: PlanDeps) {
    this.#job = job;
    this.#deps = deps;
  }

  get continues(): boolean {
    return this.#next !== undefined;
  }

  get isEmpty(): boolean {
    return this.#next === undefined && this.#children.length === 0;
  }

  continueWith(job: JobDefinition, payload: unknown, options: FollowOptions = {}): Continued {
    if (this.#next !== undefined)
      throw new InvalidOptionError("continueWith", `was already called for job ${this.#job.fence.job}`);
    this.#next = this.#prepare("continueWith", job, payload, options, newId());
    return continued;
  }

  spawn<Types extends JobTypes>(
    job: JobDefinition<Types>,
    payload: unknown,
    options: FollowOptions = {},
  ): Enqueued<Types> {
    const id = newId();
    this.#children.push(this.#prepare("spawn", job, payload, options, id));
    return { id, kind: job.kind, created: true, status: "created" };
  }

  waitForChildren(options: { onFailure?: OnFailure } = {}): WaitForChildren {
    if (this.#children.length === 0)
      throw new InvalidOptionError(
        "waitForChildren",
        "there are no children to wait for. Call spawn before it",
      );
    const outcome = waitForChildren(options.onFailure);
    this.#wait = outcome.onFailure;
    return outcome;
  }

  /**
   * The value of a handler, if it agrees with its plan. A handler that continues its chain has no result of its own: a result beside it would be
   * lost.
   */
  outcomeOf(value: unknown): unknown {
    const type = isOutcome(value) ? value.type : undefined;
    if (this.continues && value !== undefined && type !== "continued")
      throw new InvalidOptionError(
        "continueWith",
        "the handler returned something else after it. Return what continueWith returns, or nothing",
      );
    if (!this.isEmpty && (type === "snooze" || type === "park" || type === "cancel"))
      throw new InvalidOptionError(
        "spawn",
        `children cannot be spawned by an attempt that returns ${type}(…)`,
      );
    return this.continues ? continued : value;
  }

  /** As `stint.run_plan` takes it. */
  async toJson(): Promise<string> {
    const following = await Promise.all(
      [this.#next, ...this.#children].flatMap((row) => (row === undefined ? [] : [Promise.resolve(row)])),
    );
    const rows = await this.#traced(following);
    const next = this.#next === undefined ? undefined : rows[0];
    const children = next === undefined ? rows : rows.slice(1);
    const parts = [
      ...(next === undefined ? [] : [`"next":${withPayload(next)}`]),
      ...(children.length === 0 ? [] : [`"spawn":[${children.map(withPayload).join(",")}]`]),
      ...(this.#wait === undefined ? [] : [`"wait":"${this.#wait}"`]),
    ];
    return `{${parts.join(",")}}`;
  }

  /** The rows with the trace of this attempt, which is the active span here. */
  async #traced(rows: EncodedRow[]): Promise<readonly EncodedRow[]> {
    const { telemetry } = this.#deps;
    return telemetry === undefined
      ? rows
      : await traced(telemetry, rows, (withTraces) => Promise.resolve(withTraces));
  }

  #prepare(
    what: "continueWith" | "spawn",
    job: JobDefinition,
    payload: unknown,
    options: FollowOptions,
    id: string,
  ): Prepared {
    const definition = requireDefinition(job, `${what}(job)`);
    for (const name of ["id", ...shapingKeys] as const)
      if ((options as EnqueueOptions | null)?.[name] !== undefined)
        throw new InvalidOptionError(`${what}.${name}`, "cannot be given to a job that follows another");
    this.#refuseSelf(what, options.after);
    const row = prepareRow(definition, payload, options, { maxPayloadBytes: this.#deps.maxResultBytes, id });
    // The settle awaits it. Until then, a refusal must not become an unhandled rejection.
    if (isThenable(row)) row.catch(() => undefined);
    return row;
  }

  #refuseSelf(what: string, after: readonly Dependency[] | undefined): void {
    if (after !== undefined) toMember(what, { after }, this.#job.fence.job);
  }
}
