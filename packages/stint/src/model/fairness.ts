import { InvalidOptionError } from "../errors.ts";
import { describe } from "./describe.ts";
import { refuseUnknownKeys, requireInteger, requireOneOf } from "./options.ts";
import { checkText } from "./names.ts";
import { QueueMap } from "./queue-pattern.ts";

/** How many jobs each tenant takes in its turn. `*` is for tenants without their own weight; default 1. */
export type TenantWeights = Readonly<Record<string, number>>;

/** Which property of jobs a fair queue shares its workers by. */
const sharers = ["tenant"] as const;

/** How a queue shares its workers among tenants. */
export type FairSettings =
  | (typeof sharers)[number]
  | { by: (typeof sharers)[number]; weights?: TenantWeights };

/** The setting as it is stored. False: the queue is not fair, whatever the patterns that match it say. */
export type Fair = { readonly by: "tenant"; readonly weights: TenantWeights } | false;

/** Where the next claim of a fair queue begins: with this tenant, and, if it is not 0, with the rest of its quota. */
export type FairTurn = { readonly tenant: string; readonly left: number };

/** A larger one would let one tenant keep the workers for more than a thousand jobs in a row. */
const mostWeight = 1_000;
const mostWeights = 1_000;

/**
 * Check the setting `fair` of a queue.
 *
 * @throws {InvalidOptionError} It cannot work.
 */
export function resolveFair(what: string, settings: FairSettings | false): Fair {
  if (settings === false) return false;
  if (typeof settings === "string")
    return { by: requireOneOf(what, settings, sharers), weights: Object.freeze({}) };
  refuseUnknownKeys(what, settings, ["by", "weights"]);
  const by = requireOneOf(`${what}.by`, settings.by, sharers);
  const given: unknown = settings.weights ?? {};
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new InvalidOptionError(
      `${what}.weights`,
      `must be an object of weights by tenant, such as { acme: 3 }, got ${describe(given)}`,
    );
  const weights = Object.entries(given);
  if (weights.length > mostWeights)
    throw new InvalidOptionError(
      `${what}.weights`,
      `must have at most ${mostWeights} tenants, got ${weights.length}`,
    );
  for (const [tenant, weight] of weights) {
    checkText(tenant, `${what}.weights`, { max: 512 });
    requireInteger(`${what}.weights[${describe(tenant)}]`, weight, { min: 1, max: mostWeight });
  }
  return { by, weights: Object.freeze(Object.fromEntries(weights) as Record<string, number>) };
}

/** Where a fair queue begins: with the first tenant. */
export const firstTurn: FairTurn = { tenant: "", left: 0 };

/**
 * Where the next claim begins. `last`: the last tenant that a claim visited, with the rest of its quota. A claim that was full may have cut it off; one
 * that was not full has visited all tenants, and took all that this one had.
 */
export function nextTurn({ tenant, left }: FairTurn, wasFull: boolean): FairTurn {
  // The smallest text after a tenant, in byte order, is the tenant followed by the smallest character.
  return wasFull && left > 0 ? { tenant, left } : { tenant: `${tenant}\u0001`, left: 0 };
}

/** How this queue shares its workers: by its own setting, else by that of the longest pattern. False: it does not. */
export function fairOf(settings: readonly { queue: string; fair: Fair | null }[], queue: string): Fair {
  const byQueue = new QueueMap(
    settings.flatMap(({ queue: name, fair }) => (fair === null ? [] : [[name, fair] as const])),
  );
  return byQueue.get(queue) ?? false;
}

/** How many jobs this tenant takes in its turn. Null: the jobs without a tenant. */
export function weightOf(weights: TenantWeights, tenant: string | null): number {
  const own = tenant !== null && Object.hasOwn(weights, tenant) ? weights[tenant] : undefined;
  return own ?? weights["*"] ?? 1;
}
