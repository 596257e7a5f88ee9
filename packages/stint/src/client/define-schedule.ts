import type { JobDefinition, JobTypes } from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import { checkName } from "../model/names.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import {
  fireTime,
  refuseEnded,
  resolveTiming,
  slotsOf,
  timingKeys,
  type ResolvedTiming,
  type ScheduleTiming,
} from "../model/schedule.ts";
import type { ScheduleRow } from "../sql/schedules.ts";
import { requireDefinition } from "./kinds.ts";
import { prepareRow, type EnqueueOptions, type PrepareOptions } from "./prepare.ts";

/** Options of the jobs of a schedule. */
export type ScheduledJobOptions = Pick<
  EnqueueOptions,
  "priority" | "attempts" | "key" | "tenant" | "tags" | "meta" | "timeout" | "lease" | "maxCrashes"
>;

export type ScheduleOptions<Types extends JobTypes = JobTypes> = ScheduleTiming & {
  /** The kind of the job that each slot enqueues. */
  job: JobDefinition<Types>;
  /** The payload of each of its jobs. */
  payload: Types["in"];
  /** Further options of its jobs. The slot is appended to their key. */
  options?: ScheduledJobOptions;
};

/** The same for `stint.schedules.set`, where the kind may be a name. */
export type SetScheduleOptions<Types extends JobTypes = JobTypes> = Omit<
  ScheduleOptions<Types>,
  "job" | "payload"
> &
  ScheduleTiming & { job: JobDefinition<Types> | string; payload: Types["in"] };

/** A schedule of code, made by `defineSchedule`. */
export type ScheduleDefinition = {
  readonly name: string;
  readonly timing: ResolvedTiming;
  readonly job: JobDefinition | string;
  readonly payload: unknown;
  readonly options: ScheduledJobOptions;
};

const jobKeys = [
  "priority",
  "attempts",
  "key",
  "tenant",
  "tags",
  "meta",
  "timeout",
  "lease",
  "maxCrashes",
] as const satisfies (keyof ScheduledJobOptions)[];
/** The slot is appended: 512 characters are the limit of a key. */
const longestKey = 480;

/**
 * Declare a schedule. Pass it to a worker: `worker({ schedules: [nightlyAudit], owner: "billing" })`.
 *
 * @throws {InvalidOptionError} A name or an option cannot work.
 */
export function defineSchedule<Types extends JobTypes>(
  name: string,
  options: ScheduleOptions<Types>,
): ScheduleDefinition {
  const definition = resolveSchedule(`defineSchedule("${describeName(name)}")`, name, options);
  requireDefinition(definition.job, `defineSchedule("${name}").job`);
  return definition;
}

function describeName(name: unknown): string {
  return typeof name === "string" ? name.slice(0, 128) : typeof name;
}

/** Check a schedule, but for its payload and whether its end is over. */
export function resolveSchedule(what: string, name: string, options: SetScheduleOptions): ScheduleDefinition {
  checkName(name, `${what}.name`);
  refuseUnknownKeys(what, options, [...timingKeys, "job", "payload", "options"]);
  const { job, payload, options: jobOptions = {} } = options;
  refuseUnknownKeys(`${what}.options`, jobOptions, jobKeys);
  if (job === undefined) throw new InvalidOptionError(`${what}.job`, "is required: what should it enqueue?");
  return Object.freeze({ name, timing: resolveTiming(what, options), job, payload, options: jobOptions });
}

export type SchedulePrepareOptions = PrepareOptions & {
  /** The definition of a kind. */
  readonly find: (job: JobDefinition | string) => JobDefinition;
};

/**
 * Check the payload, and compute the first slot from `now` on, by the database's clock.
 *
 * @throws {InvalidPayloadError} The payload does not fit its kind.
 * @throws {InvalidOptionError} Its end is over, or its key is too long.
 */
export async function scheduleRow(
  what: string,
  { name, timing, job, payload, options }: ScheduleDefinition,
  now: number,
  prepare: SchedulePrepareOptions,
): Promise<ScheduleRow> {
  refuseEnded(what, timing, now);
  const encoded = await prepareRow(prepare.find(job), payload, options, prepare);
  const { id: _, ...row } = encoded.row;
  if (row.key !== undefined && row.key.length > longestKey)
    throw new InvalidOptionError(
      `${what}.options.key`,
      `must be at most ${longestKey} characters for a schedule, because the slot is appended; it has ${row.key.length}`,
    );
  const meta = encoded.meta === undefined ? "" : `,"meta":${encoded.meta}`;
  const nextSlot = slotsOf(timing)(now);
  return {
    name,
    timing,
    job: `${JSON.stringify(row).slice(0, -1)}${meta},"payload":${encoded.payload}}`,
    nextSlot,
    dueAt: nextSlot === null ? null : fireTime(name, nextSlot, timing.jitterMs),
  };
}
