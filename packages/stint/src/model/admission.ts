import { InvalidOptionError } from "../errors.ts";
import { checkDependencyName } from "./dependencies.ts";
import { describe } from "./describe.ts";
import { closest } from "./names.ts";
import { longestMs, toMs, type Duration } from "./duration.ts";
import { refuseUnknownKeys, requireBoolean, requireInteger, requireOneOf } from "./options.ts";

/** What happens to an enqueue to a full queue. */
export const admissionPolicies = ["reject", "defer", "shed", "warn"] as const;
export type AdmissionPolicy = (typeof admissionPolicies)[number];

/** Which jobs the policy "shed" cancels first. */
export const shedOrders = ["lowest-priority", "oldest"] as const;
export type ShedOrder = (typeof shedOrders)[number];

/** How many jobs a queue takes, and what happens to an enqueue beyond that. */
export type AdmissionSettings = {
  /** The most jobs of the queue that have not ended, running ones included. */
  maxDepth?: number;
  /** Full while the oldest ready job has been waiting for longer. */
  maxAge?: Duration;
  /** Full while a new job would wait for longer for tokens of one of these dependencies: `{ mail: "1h" }`. An estimate, from the jobs that wait. */
  maxDelay?: Readonly<Record<string, Duration>>;
  /**
   * "reject": the enqueue throws a QueueFullError. "defer": the job is accepted with a later run time. "shed": waiting jobs are cancelled to make
   * room. "warn": the job is accepted, and the enqueue is counted. Default "reject".
   */
  policy?: AdmissionPolicy;
  /**
   * Never exceed `maxDepth`, of the queue and of each tenant: commits of enqueues to this queue happen one after the other, and a replay that does not
   * fit is refused. Default: a sample of at most a second ago decides.
   */
  strict?: boolean;
  /** With "defer": by how much. Default: as long as the surplus takes to drain, from 1 s to 5 min. */
  deferBy?: Duration;
  /** With "shed": which jobs go first. Default "lowest-priority". */
  shed?: ShedOrder;
  /** The same for each tenant of this queue, by its own jobs. */
  tenant?: TenantAdmissionSettings;
};

/** How many jobs of one tenant a queue takes, and what happens to an enqueue of that tenant beyond it. */
export type TenantAdmissionSettings = Pick<
  AdmissionSettings,
  "maxDepth" | "maxAge" | "policy" | "deferBy" | "shed"
>;

/** The settings as they are stored. */
export type Admission = {
  readonly maxDepth?: number;
  readonly maxAgeMs?: number;
  readonly maxDelayMs?: Readonly<Record<string, number>>;
  readonly policy: AdmissionPolicy;
  readonly strict?: true;
  readonly deferByMs?: number;
  readonly shed?: ShedOrder;
  readonly tenant?: TenantAdmission;
};

/** The settings for each tenant as they are stored. */
export type TenantAdmission = Pick<Admission, "maxDepth" | "maxAgeMs" | "policy" | "deferByMs" | "shed">;

/** Of the dependencies in `maxDelay`, the one that delays new jobs most against its limit. */
export type Behind = {
  readonly dependency: string;
  readonly delayMs: number;
  readonly maxDelayMs: number;
};

/** What an enqueue of one job would meet now. */
export type AdmissionState = {
  readonly queue: string;
  /** Whether the enqueue would be accepted. False only where it would be rejected. */
  readonly admits: boolean;
  /** Whether the queue, or the tenant, is at a limit. */
  readonly isFull: boolean;
  /** "accept", or the policy that applies because it is full. Of the queue's and the tenant's, the one with the greater consequence. */
  readonly onEnqueue: "accept" | AdmissionPolicy;
  /** By how much the job would be deferred; 0 unless a policy defers. */
  readonly deferMs: number;
  /** After how long there may be room; 0 unless it is full. */
  readonly retryAfterMs: number;
  /** Null: the queue has no admission settings, and admits every job. */
  readonly policy: AdmissionPolicy | null;
  /** Jobs of the queue that have not ended. */
  readonly depth: number;
  /** How long its oldest ready job has been waiting. */
  readonly ageMs: number;
  readonly maxDepth: number | null;
  readonly maxAgeMs: number | null;
  readonly behind: Behind | null;
  /** The same of the tenant that was asked for; null: none was, or the queue has no settings for tenants. */
  readonly tenant: {
    readonly tenant: string;
    readonly policy: AdmissionPolicy;
    readonly depth: number;
    readonly ageMs: number;
    readonly maxDepth: number | null;
    readonly maxAgeMs: number | null;
  } | null;
};

const mostJobs = 1_000_000_000;
const mostDependencies = 16;
const tenantKeys = ["maxDepth", "maxAge", "policy", "deferBy", "shed"] as const;
const keys = ["maxDepth", "maxAge", "maxDelay", "policy", "strict", "deferBy", "shed", "tenant"] as const;

/**
 * Check admission settings, and write durations as milliseconds.
 *
 * @throws {InvalidOptionError} A setting cannot work.
 */
export function resolveAdmission(what: string, settings: AdmissionSettings): AdmissionSettings {
  refuseUnknownKeys(what, settings, keys);
  const { maxDelay, strict = false, tenant, ...own } = settings;
  if ([own.maxDepth, own.maxAge, maxDelay, tenant].every((part) => part === undefined))
    throw new InvalidOptionError(what, "needs maxDepth, maxAge, maxDelay or tenant");
  requireBoolean(`${what}.strict`, strict);
  const resolved = resolvePart(what, own);
  const ofTenant = tenant === undefined ? undefined : resolveTenant(`${what}.tenant`, tenant);
  if (strict) requireStrict(`${what}.strict`, resolved, ofTenant);
  return {
    ...resolved,
    ...(maxDelay === undefined ? {} : { maxDelay: resolveDelays(`${what}.maxDelay`, maxDelay) }),
    ...(strict ? { strict } : {}),
    ...(ofTenant === undefined ? {} : { tenant: ofTenant }),
  };
}

function resolveTenant(what: string, settings: TenantAdmissionSettings): TenantAdmissionSettings {
  refuseUnknownKeys(what, settings, tenantKeys);
  if (settings.maxDepth === undefined && settings.maxAge === undefined)
    throw new InvalidOptionError(what, "needs maxDepth or maxAge");
  return resolvePart(what, settings);
}

/** What a queue and a tenant have in common. */
function resolvePart(what: string, settings: TenantAdmissionSettings): TenantAdmissionSettings {
  const { maxDepth, maxAge, policy = "reject", deferBy, shed } = settings;
  requireOneOf(`${what}.policy`, policy, admissionPolicies);
  if (deferBy !== undefined && policy !== "defer")
    throw new InvalidOptionError(`${what}.deferBy`, 'needs the policy "defer"');
  if (shed !== undefined && policy !== "shed")
    throw new InvalidOptionError(`${what}.shed`, 'needs the policy "shed"');
  if (policy === "shed" && maxDepth === undefined)
    throw new InvalidOptionError(what, 'needs maxDepth for the policy "shed"');
  const time = (name: "maxAge" | "deferBy", value: Duration): number =>
    toMs(value, `${what}.${name}`, { min: 1, max: longestMs });
  return {
    policy,
    ...(maxDepth === undefined
      ? {}
      : { maxDepth: requireInteger(`${what}.maxDepth`, maxDepth, { min: 1, max: mostJobs }) }),
    ...(maxAge === undefined ? {} : { maxAge: time("maxAge", maxAge) }),
    ...(deferBy === undefined ? {} : { deferBy: time("deferBy", deferBy) }),
    ...(shed === undefined ? {} : { shed: requireOneOf(`${what}.shed`, shed, shedOrders) }),
  };
}

function requireStrict(
  option: string,
  { maxDepth, policy }: TenantAdmissionSettings,
  tenant: TenantAdmissionSettings | undefined,
): void {
  const isStrict = (each: AdmissionPolicy | undefined): boolean => each === "reject" || each === "shed";
  if ((maxDepth === undefined && tenant?.maxDepth === undefined) || !isStrict(policy))
    throw new InvalidOptionError(
      option,
      'needs maxDepth or tenant.maxDepth, and the policy "reject" or "shed"',
    );
  if (tenant !== undefined && !isStrict(tenant.policy))
    throw new InvalidOptionError(option, 'needs the policy "reject" or "shed" in tenant, too');
}

/** @throws {InvalidOptionError} `maxDelay` names a dependency that is not known. */
export function refuseUnknownDelays(
  what: string,
  { maxDelay = {} }: Pick<AdmissionSettings, "maxDelay">,
  known: readonly string[],
): void {
  const unknown = Object.keys(maxDelay).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const suggestion = closest(unknown, known);
  throw new InvalidOptionError(
    `${what}.maxDelay`,
    `names "${unknown}", which is not declared` +
      (suggestion === undefined ? "" : `; did you mean "${suggestion}"?`) +
      ". Declare it by defineDependency, and start a worker of a kind that uses it",
  );
}

function resolveDelays(what: string, delays: Readonly<Record<string, Duration>>): Record<string, number> {
  if (typeof delays !== "object" || delays === null || Array.isArray(delays))
    throw new InvalidOptionError(what, `must be an object such as { mail: "1h" }, got ${describe(delays)}`);
  const given = Object.entries(delays);
  if (given.length < 1 || given.length > mostDependencies)
    throw new InvalidOptionError(
      what,
      `must have 1 to ${mostDependencies} dependencies, got ${given.length}`,
    );
  return Object.fromEntries(
    given.map(([name, delay]) => [
      checkDependencyName(name, `${what} "${name.slice(0, 200)}"`),
      toMs(delay, `${what}.${name}`, { min: 1, max: longestMs }),
    ]),
  );
}
