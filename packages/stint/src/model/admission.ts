import { InvalidOptionError } from "../errors.ts";
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
  /**
   * "reject": the enqueue throws a QueueFullError. "defer": the job is accepted with a later run time. "shed": waiting jobs are cancelled to make
   * room. "warn": the job is accepted, and the enqueue is counted. Default "reject".
   */
  policy?: AdmissionPolicy;
  /** Never exceed `maxDepth`: commits of enqueues to this queue happen one after the other. Default: a sample of at most a second ago decides. */
  strict?: boolean;
  /** With "defer": by how much. Default: as long as the surplus takes to drain, from 1 s to 5 min. */
  deferBy?: Duration;
  /** With "shed": which jobs go first. Default "lowest-priority". */
  shed?: ShedOrder;
  /** The most jobs of one tenant in this queue. Beyond it, an enqueue throws a QueueFullError. */
  tenant?: { maxDepth: number };
};

/** The settings as they are stored. */
export type Admission = {
  readonly maxDepth?: number;
  readonly maxAgeMs?: number;
  readonly policy: AdmissionPolicy;
  readonly strict?: true;
  readonly deferByMs?: number;
  readonly shed?: ShedOrder;
  readonly tenantMaxDepth?: number;
};

/** Whether a queue would admit a job now. */
export type AdmissionState = {
  readonly queue: string;
  readonly admits: boolean;
  /** Null: the queue has no admission settings, and admits every job. */
  readonly policy: AdmissionPolicy | null;
  /** Jobs of the queue that have not ended. */
  readonly depth: number;
  /** How long its oldest ready job has been waiting. */
  readonly ageMs: number;
  readonly maxDepth: number | null;
  readonly maxAgeMs: number | null;
  /** After how long to ask again; 0 if it admits. */
  readonly retryAfterMs: number;
};

const mostJobs = 1_000_000_000;
const keys = ["maxDepth", "maxAge", "policy", "strict", "deferBy", "shed", "tenant"] as const;

/**
 * Check admission settings, and write durations as milliseconds.
 *
 * @throws {InvalidOptionError} A setting cannot work.
 */
export function resolveAdmission(what: string, settings: AdmissionSettings): AdmissionSettings {
  refuseUnknownKeys(what, settings, keys);
  const { maxDepth, maxAge, policy = "reject", strict = false, deferBy, shed, tenant } = settings;
  if (maxDepth === undefined && maxAge === undefined && tenant === undefined)
    throw new InvalidOptionError(what, "needs maxDepth, maxAge or tenant");
  requireOneOf(`${what}.policy`, policy, admissionPolicies);
  requireBoolean(`${what}.strict`, strict);
  if (strict && (maxDepth === undefined || (policy !== "reject" && policy !== "shed")))
    throw new InvalidOptionError(`${what}.strict`, 'needs maxDepth, and the policy "reject" or "shed"');
  if (deferBy !== undefined && policy !== "defer")
    throw new InvalidOptionError(`${what}.deferBy`, 'needs the policy "defer"');
  if (shed !== undefined && policy !== "shed")
    throw new InvalidOptionError(`${what}.shed`, 'needs the policy "shed"');
  if (policy === "shed" && maxDepth === undefined)
    throw new InvalidOptionError(what, 'needs maxDepth for the policy "shed"');
  const count = (option: string, value: unknown): number =>
    requireInteger(option, value, { min: 1, max: mostJobs });
  const time = (name: "maxAge" | "deferBy", value: Duration): number =>
    toMs(value, `${what}.${name}`, { min: 1, max: longestMs });
  if (tenant !== undefined) refuseUnknownKeys(`${what}.tenant`, tenant, ["maxDepth"]);
  return {
    policy,
    ...(maxDepth === undefined ? {} : { maxDepth: count(`${what}.maxDepth`, maxDepth) }),
    ...(maxAge === undefined ? {} : { maxAge: time("maxAge", maxAge) }),
    ...(strict ? { strict } : {}),
    ...(deferBy === undefined ? {} : { deferBy: time("deferBy", deferBy) }),
    ...(shed === undefined ? {} : { shed: requireOneOf(`${what}.shed`, shed, shedOrders) }),
    ...(tenant === undefined
      ? {}
      : { tenant: { maxDepth: count(`${what}.tenant.maxDepth`, tenant.maxDepth) } }),
  };
}
