import type { Run } from "../db/db.ts";
import type { Admission, Behind } from "../model/admission.ts";
import { checkText } from "../model/names.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import type { Pause } from "../model/pause.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import type { QueueSetting } from "../model/queue-settings.ts";
import { controlChanges, type ControlChange } from "../sql/audit.ts";
import { dependencies, dependencyDelays, type DependencyStatus } from "../sql/dependencies.ts";
import { standing, type Standing } from "../sql/depth.ts";
import { limitKeys, limits, type Limit, type LimitKey } from "../sql/limits.ts";
import { pauses } from "../sql/pauses.ts";
import { queueSettings } from "../sql/queue-settings.ts";

/** A queue with admission settings, and how full it is. */
export type QueueAdmission = Admission & {
  readonly queue: string;
  /** The name or pattern whose settings apply. */
  readonly setFor: string;
  /** Where the settings come from: a declaration in code or a live change. */
  readonly source: "code" | "live";
  /** Jobs of the queue that have not ended. */
  readonly depth: number;
  /** How long its oldest ready job has been waiting; 0: none is ready. */
  readonly ageMs: number;
  /** Of the dependencies in `maxDelay`, the one that delays new jobs most against its limit; null: there are none. */
  readonly behind: Behind | null;
  readonly full: boolean;
};

/** Keys of limits that jobs hold or wait for. */
export type KeysInUse = Pick<Controls, "keys" | "moreKeys" | "keysCapped">;

/** What decides which jobs may be enqueued and start, with live values. */
export type Controls = {
  /** The pauses in force, at most 1,000. */
  readonly pauses: readonly Pause[];
  readonly limits: readonly Limit[];
  /** Outside systems and what is left of what they allow, at most 1,000. */
  readonly dependencies: readonly DependencyStatus[];
  /** The keys that jobs hold or wait for, those with the most waiting jobs first, at most 100. */
  readonly keys: readonly LimitKey[];
  /** Whether there are more than these. `inspector.limitKeys({ search })` finds them. */
  readonly moreKeys: boolean;
  /** Whether only the first 50,000 places were counted: there are more jobs than `held` and `waiting` say. */
  readonly keysCapped: boolean;
  /** Queues with admission settings, full ones first, at most 200. */
  readonly admission: readonly QueueAdmission[];
  /** The settings of every name and pattern that has any. */
  readonly settings: readonly QueueSetting[];
  /** The newest 50 changes, newest first. */
  readonly changes: readonly ControlChange[];
};

const mostKeys = 100;
/** Places that are read to count keys: a page that is open must not read millions of them every few seconds. */
const mostPlaces = 50_000;
const mostQueues = 200;
const mostChanges = 50;

export async function controls(db: Run): Promise<Controls> {
  const [paused, limited, used, keys, settings, changes] = await Promise.all([
    pauses(db),
    limits(db),
    dependencies(db),
    keysInUse(db),
    queueSettings(db),
    controlChanges(db, mostChanges),
  ]);
  const admits = settings.some(({ admission }) => admission !== null);
  return {
    pauses: paused,
    limits: limited,
    dependencies: used,
    ...keys,
    // Reads the depth of every queue: not where no queue has admission settings.
    admission: admits ? await readAdmission(db, settings) : [],
    settings,
    changes,
  };
}

/**
 * The keys that jobs hold or wait for, counted from at most 50,000 places, those with the most waiting jobs first, at most 100.
 *
 * @throws {InvalidOptionError} The search is not a text.
 */
export async function keysInUse(db: Run, options: { search?: string } = {}): Promise<KeysInUse> {
  refuseUnknownKeys("limitKeys", options, ["search"]);
  const { search } = options;
  const checked = search === undefined ? undefined : checkText(search, "limitKeys.search", { max: 768 });
  const { keys, places } = await limitKeys(db, { search: checked, limit: mostKeys + 1, mostPlaces });
  return {
    keys: keys.slice(0, mostKeys),
    moreKeys: keys.length > mostKeys,
    keysCapped: places >= mostPlaces,
  };
}

async function readAdmission(db: Run, settings: readonly QueueSetting[]): Promise<QueueAdmission[]> {
  const followed = settings.flatMap(({ admission }) => Object.keys(admission?.maxDelayMs ?? {}));
  const [stands, delays] = await Promise.all([standing(db), dependencyDelays(db, [...new Set(followed)])]);
  return toAdmission(settings, stands, delays);
}

function toAdmission(
  settings: readonly QueueSetting[],
  { depth, ages }: Standing,
  delays: ReadonlyMap<string, number>,
): QueueAdmission[] {
  const byQueue = new QueueMap(
    settings.filter(({ admission }) => admission !== null).map((setting) => [setting.queue, setting]),
  );
  const live = new Map<string, number>();
  for (const { queue, scheduled, ready, running, retrying, parked } of depth)
    live.set(queue, (live.get(queue) ?? 0) + scheduled + ready + running + retrying + parked);
  const oldest = new Map(ages.map(({ queue, oldestReadyMs }) => [queue, Math.max(0, oldestReadyMs ?? 0)]));
  return [...new Set([...live.keys(), ...byQueue.names])]
    .flatMap((queue) => {
      const setting = byQueue.get(queue);
      return setting === undefined
        ? []
        : [stateOf(queue, setting, live.get(queue) ?? 0, oldest.get(queue) ?? 0, delays)];
    })
    .sort((a, b) => Number(b.full) - Number(a.full) || b.depth - a.depth || (a.queue < b.queue ? -1 : 1))
    .slice(0, mostQueues);
}

function stateOf(
  queue: string,
  setting: QueueSetting,
  depth: number,
  ageMs: number,
  delays: ReadonlyMap<string, number>,
): QueueAdmission {
  const { admission, declaredAdmission } = setting;
  const { maxDepth = Infinity, maxAgeMs = Infinity, maxDelayMs = {} } = admission ?? {};
  const overMs = ({ delayMs, maxDelayMs: most }: Behind): number => delayMs - most;
  const [behind = null] = Object.entries(maxDelayMs)
    .map(([dependency, most]) => ({ dependency, delayMs: delays.get(dependency) ?? 0, maxDelayMs: most }))
    .sort((a, b) => overMs(b) - overMs(a));
  return {
    ...(admission as Admission),
    queue,
    setFor: setting.queue,
    source: JSON.stringify(admission) === JSON.stringify(declaredAdmission) ? "code" : "live",
    depth,
    ageMs,
    behind,
    full: depth >= maxDepth || ageMs > maxAgeMs || (behind !== null && overMs(behind) > 0),
  };
}
