import { requirePriority, resolveKindPolicy, type JobDefinition, type JobTypes } from "../define.ts";
import { InvalidOptionError } from "../errors.ts";
import { costsOf, type DeclaredDependencies } from "../model/dependencies.ts";
import { describe } from "../model/describe.ts";
import { toMs, type Duration } from "../model/duration.ts";
import { encodeJson } from "../model/json.ts";
import { limitKeys } from "../model/limits.ts";
import { checkText } from "../model/names.ts";
import { resolveQuietHours, type QuietHours } from "../model/quiet-hours.ts";
import { refuseUnknownKeys, requireDate } from "../model/options.ts";
import { isThenable, validate } from "../model/standard-schema.ts";
import { newId } from "../runtime/new-id.ts";
import { withPayload, type EncodedRow, type EnqueueRow } from "../sql/enqueue.ts";
import { toMember, type AfterOptions } from "./after.ts";
import { requireId } from "./ids.ts";
import { requireDefinition } from "./kinds.ts";
import { setShaping, shapingKeys, type ShapingOptions } from "./shaping.ts";

export type EnqueueOptions = (
  | {
      /** The earliest time at which the job may run. */
      runAt?: Date;
      delay?: undefined;
    }
  | {
      runAt?: undefined;
      /** Run after this delay, by the database's clock. */
      delay?: Duration;
    }
) &
  ShapingOptions &
  AfterOptions & {
    /** The job does not run after this time: it is cancelled as expired. Not with `expiresIn`. */
    expiresAt?: Date;
    /** The same, counted from the enqueue by the database's clock. */
    expiresIn?: Duration;
    /** The id of an earlier enqueue with an unknown outcome: the repeat is the same job. */
    id?: string;
    /** Smaller runs first. */
    priority?: number;
    attempts?: number;
    /** The business key of the logical work. Default: the kind's `key`, applied to the payload. */
    key?: string;
    tenant?: string;
    tags?: readonly string[];
    /** A correlation id, a trace context and similar. */
    meta?: Record<string, unknown>;
    timeout?: Duration;
    lease?: Duration;
    maxCrashes?: number;
    /** Attempts of this job start when these hours are over. */
    quietHours?: QuietHours;
    /**
     * The job that undoes this one, made by `entry(…)`. If another part of its flow or chain dies or is cancelled after this job has succeeded, the
     * flow stops, and its compensations run in reverse order, each with the result of the job that it undoes.
     */
    compensate?: ManyEntry;
  };

/** One entry of `enqueueMany`. Made by `entry(definition, payload, options)`, so that each payload is checked by its own kind. */
export type ManyEntry<Types extends JobTypes = JobTypes> = {
  readonly job: JobDefinition | string;
  readonly payload: unknown;
  readonly options?: EnqueueOptions;
  /** For the compiler only. */
  readonly types?: Types;
};

const keys = [
  "id",
  "runAt",
  "delay",
  "expiresAt",
  "expiresIn",
  "priority",
  "attempts",
  "key",
  ...shapingKeys,
  "tenant",
  "tags",
  "meta",
  "timeout",
  "lease",
  "maxCrashes",
  "quietHours",
  "after",
  "onFailure",
  "compensate",
] as const satisfies (keyof EnqueueOptions)[];

/** Most jobs have none: then no option is looked for. */
export const noOptions: EnqueueOptions = Object.freeze({});

const maxTags = 32;
const metaBytes = 16_384;
// After the year 9999 Postgres and JavaScript write dates differently.
const latestRunAt = Date.UTC(10_000, 0, 1) - 1;
const earliestRunAt = 0;
const longestDelayMs = 100 * 365 * 86_400_000;

/**
 * Check one job before anything is written, and encode it once. The payload is read before the first await: later changes
 * by the caller do not change the job.
 */
export function prepareRow(
  definition: JobDefinition,
  payload: unknown,
  options: EnqueueOptions,
  { maxPayloadBytes, id, dependencies }: PrepareOptions,
): EncodedRow | Promise<EncodedRow> {
  const { kind } = definition;
  const what = `enqueue("${kind}")`;
  if (options !== noOptions) refuseUnknownKeys(what, options, keys);
  const checked = validate(definition.payload, payload, { kind, root: "payload" });
  // The first error is thrown. A second one must not become an unhandled rejection.
  if (isThenable(checked)) checked.then(undefined, () => undefined);
  const row = encodeRow(definition, payload, options, { maxPayloadBytes, id, dependencies });
  const undo =
    options.compensate === undefined ? undefined : prepareUndo(what, options.compensate, maxPayloadBytes);
  if (!isThenable(checked) && !isThenable(undo)) return withUndo(row, undo);
  return Promise.all([checked, undo]).then(([, ready]) => withUndo(row, ready));
}

function prepareUndo(
  what: string,
  entry: ManyEntry,
  maxPayloadBytes: number,
): EncodedRow | Promise<EncodedRow> {
  const given: unknown = entry;
  if (typeof given !== "object" || given === null || !("job" in given))
    throw new InvalidOptionError(`${what}.compensate`, `must be made by entry(…), got ${describe(given)}`);
  for (const name of ["id", ...shapingKeys, "after", "compensate"] as const)
    if (entry.options?.[name] !== undefined)
      throw new InvalidOptionError(`${what}.compensate.${name}`, "cannot be given to a compensation");
  const definition = requireDefinition(entry.job, `${what}.compensate(job)`);
  return prepareRow(definition, entry.payload, entry.options ?? noOptions, { maxPayloadBytes });
}

function withUndo(row: EncodedRow, undo: EncodedRow | undefined): EncodedRow {
  if (undo === undefined) return row;
  const compensate = JSON.parse(withPayload(undo)) as unknown;
  return { ...row, row: { ...row.row, member: { ...row.row.member, compensate } } };
}

export type PrepareOptions = {
  readonly maxPayloadBytes: number;
  /** Its id, where the caller has made one. */
  readonly id?: string | undefined;
  /** What this code declares, for kinds that use a dependency by its name. */
  readonly dependencies?: DeclaredDependencies | undefined;
};

function encodeRow(
  definition: JobDefinition,
  payload: unknown,
  options: EnqueueOptions,
  { maxPayloadBytes, id, dependencies }: PrepareOptions,
): EncodedRow {
  const { kind } = definition;
  const what = `enqueue("${kind}")`;
  const row: EnqueueRow = { id: id ?? newId(), kind, queue: definition.queue };
  const key = options.key ?? definition.key?.(payload as never);
  if (key !== undefined) row.key = checkText(key, `${what}.key`);
  const priority = options.priority ?? definition.priority;
  if (priority !== undefined) row.priority = requirePriority(`${what}.priority`, priority);
  if (options !== noOptions) setOptions(row, what, options);
  const limited = limitKeys(what, definition, payload);
  if (limited !== undefined) Object.assign(row, limited);
  // The worker computes the costs again. Here a job that could never start is refused.
  if (definition.uses.length > 0) costsOf(kind, definition.uses, payload, dependencies);

  return {
    row,
    payload: encodeJson(payload, { kind, root: "payload", maxBytes: maxPayloadBytes }),
    meta: options === noOptions ? undefined : metaOf(options, kind, what),
  };
}

/** The options that only this job has. */
function setOptions(row: EnqueueRow, what: string, options: EnqueueOptions): void {
  if (options.id !== undefined) {
    row.id = requireId(options.id, `${what}.id`);
    row.again = true;
  }
  setTime(row, what, options);
  setExpiry(row, what, options);
  setPolicy(row, what, options);
  if (options.tenant !== undefined) row.tenant = checkText(options.tenant, `${what}.tenant`);
  if (options.tags !== undefined) row.tags = checkTags(options.tags, what);
  setShaping(row, what, options);
  const member = toMember(what, options, row.id);
  if (member !== undefined) row.member = member;
}

/** Only the options of this job. The worker applies the kind's own policy when the job runs. */
function setPolicy(row: EnqueueRow, what: string, options: EnqueueOptions): void {
  const { attempts: given, timeout, lease, maxCrashes: crashes } = options;
  // Most jobs have none of these options. Null counts as given, and is refused below.
  if (given === undefined && timeout === undefined && lease === undefined && crashes === undefined) return;
  const { attempts, maxCrashes, timeoutMs, leaseMs } = resolveKindPolicy(what, options);
  if (attempts !== undefined) row.max_attempts = attempts;
  if (maxCrashes !== undefined) row.max_crashes = maxCrashes;
  if (timeoutMs !== undefined) row.timeout_ms = timeoutMs;
  if (leaseMs !== undefined) row.lease_ms = leaseMs;
}

/** The earliest time at which a job may run, as a row has it. */
export function setTime(
  row: { run_at?: string; delay_ms?: number },
  what: string,
  { runAt, delay }: Pick<EnqueueOptions, "runAt" | "delay">,
): void {
  if (runAt !== undefined && delay !== undefined) {
    throw new InvalidOptionError(
      what,
      `takes runAt or delay, not both; got ${describe(runAt)} and ${describe(delay)}`,
    );
  }
  if (runAt !== undefined) {
    row.run_at = toTime(`${what}.runAt`, runAt);
  }
  if (delay !== undefined) row.delay_ms = toMs(delay, `${what}.delay`, { max: longestDelayMs });
}

function setExpiry(row: EnqueueRow, what: string, { expiresAt, expiresIn }: EnqueueOptions): void {
  if (expiresAt === undefined && expiresIn === undefined) return;
  if (expiresAt !== undefined && expiresIn !== undefined)
    throw new InvalidOptionError(what, "takes expiresAt or expiresIn, not both");
  if (expiresAt !== undefined) row.expires_at = toTime(`${what}.expiresAt`, expiresAt);
  if (expiresIn !== undefined)
    row.expires_ms = toMs(expiresIn, `${what}.expiresIn`, { min: 1, max: longestDelayMs });
  const { run_at: runAt, expires_at: at, delay_ms: delayMs = 0, expires_ms: ms = Infinity } = row;
  if ((runAt !== undefined && at !== undefined && at <= runAt) || ms <= delayMs)
    throw new InvalidOptionError(
      what,
      "would expire before it may run: check expiresAt, expiresIn, runAt and delay",
    );
}

/** A time that Postgres and JavaScript write alike. */
function toTime(option: string, value: Date): string {
  const at = requireDate(option, value);
  if (at.getTime() > latestRunAt)
    throw new InvalidOptionError(option, `must be in the year 9999 at the latest, got ${describe(at)}`);
  // Postgres has no year before 4713 BC, and writes years before 1 AD differently.
  if (at.getTime() < earliestRunAt)
    throw new InvalidOptionError(option, `must be 1970 or later, got ${describe(at)}`);
  return at.toISOString();
}

function checkTags(tags: readonly string[], what: string): readonly string[] {
  if (!Array.isArray(tags) || tags.length > maxTags) {
    throw new InvalidOptionError(
      `${what}.tags`,
      `must be an array of at most ${maxTags} strings, got ${Array.isArray(tags) ? tags.length : describe(tags)}`,
    );
  }
  return tags.map((tag, index) => checkText(tag, `${what}.tags[${index}]`, { max: 128 }));
}

/** Quiet hours are kept in the meta: most jobs have none, and a claim returns the meta anyway. */
function metaOf({ meta, quietHours }: EnqueueOptions, kind: string, what: string): string | undefined {
  if (quietHours === undefined) return meta === undefined ? undefined : encodeMeta(meta, kind, what);
  const checked = resolveQuietHours(`${what}.quietHours`, quietHours);
  return encodeMeta({ ...meta, quietHours: checked }, kind, what);
}

function encodeMeta(meta: Record<string, unknown>, kind: string, what: string): string {
  if (typeof meta !== "object" || meta === null || Array.isArray(meta)) {
    throw new InvalidOptionError(`${what}.meta`, `must be a plain object, got ${describe(meta)}`);
  }
  return encodeJson(meta, { kind, root: "meta", maxBytes: metaBytes });
}
