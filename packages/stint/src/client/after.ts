import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import { requireOneOf } from "../model/options.ts";
import type { Member, OnFailure } from "../sql/enqueue.ts";
import { requireId } from "./ids.ts";

/** A job that another one waits for: what `enqueue` returned, or its id. */
export type Dependency = { readonly id: string } | string;

export type AfterOptions = {
  /**
   * Wait for these jobs: the job is parked until all of them have ended. A job that was continued has ended when its chain has. `ctx.results` returns
   * what they returned.
   */
  after?: readonly Dependency[];
  /**
   * What happens if one of them dies or is cancelled. "park" (default): the job stays parked, and runs after a replay of the other has
   * succeeded. "cancel": the job is cancelled, too. "run": the job runs when all have ended, however they did.
   */
  onFailure?: OnFailure;
};

export const failurePolicies = ["park", "cancel", "run"] as const satisfies OnFailure[];

/** The most jobs that one job may wait for. */
export const mostDependencies = 10_000;

/** The member part of a row, from its options; undefined if it waits for nothing. `own` is its id. */
export function toMember(what: string, options: AfterOptions, own: string): Member | undefined {
  const { after, onFailure } = options;
  if (after === undefined) {
    if (onFailure !== undefined)
      throw new InvalidOptionError(`${what}.onFailure`, "has no meaning without after");
    return undefined;
  }
  const ids = requireDependencies(`${what}.after`, after, (id, option) => {
    if (id === own) throw new InvalidOptionError(option, `job ${id} cannot wait for itself`);
    return id;
  });
  if (onFailure !== undefined) requireOneOf(`${what}.onFailure`, onFailure, failurePolicies);
  if (ids.length === 0) return undefined;
  return onFailure === undefined ? { after: ids } : { after: ids, on_failure: onFailure };
}

/** The ids of these jobs, each checked by `check`. */
export function requireDependencies(
  option: string,
  after: readonly Dependency[],
  check: (id: string, option: string) => string,
): string[] {
  const given: unknown = after;
  if (!Array.isArray(given))
    throw new InvalidOptionError(option, `must be an array of jobs, got ${describe(given)}`);
  if (given.length > mostDependencies)
    throw new InvalidOptionError(
      option,
      `must have at most ${mostDependencies} jobs, got ${given.length}. Use a batch`,
    );
  return after.map((one, index) => {
    const id: unknown = typeof one === "string" ? one : (one as { id?: unknown } | null)?.id;
    return check(requireId(id, `${option}[${index}]`), `${option}[${index}]`);
  });
}
