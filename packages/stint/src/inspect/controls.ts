import type { Run } from "../db/db.ts";
import type { Admission } from "../model/admission.ts";
import type { Pause } from "../model/pause.ts";
import { QueueMap } from "../model/queue-pattern.ts";
import type { QueueSetting } from "../model/queue-settings.ts";
import { controlChanges, type ControlChange } from "../sql/audit.ts";
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
  readonly full: boolean;
};

/** What decides which jobs may be enqueued and start, with live values. */
export type Controls = {
  /** The pauses in force, at most 1,000. */
  readonly pauses: readonly Pause[];
  readonly limits: readonly Limit[];
  /** The keys that jobs hold or wait for, those with the most waiting jobs first, at most 100. */
  readonly keys: readonly LimitKey[];
  /** Queues with admission settings, full ones first, at most 200. */
  readonly admission: readonly QueueAdmission[];
  /** The settings of every name and pattern that has any. */
  readonly settings: readonly QueueSetting[];
  /** The newest 50 changes, newest first. */
  readonly changes: readonly ControlChange[];
};

const mostKeys = 100;
const mostQueues = 200;
const mostChanges = 50;

export async function controls(db: Run): Promise<Controls> {
  const [paused, limited, keys, settings, changes] = await Promise.all([
    pauses(db),
    limits(db),
    limitKeys(db, null, mostKeys),
    queueSettings(db),
    controlChanges(db, mostChanges),
  ]);
  const admits = settings.some(({ admission }) => admission !== null);
  return {
    pauses: paused,
    limits: limited,
    keys,
    // Reads the depth of every queue: not where no queue has admission settings.
    admission: admits ? toAdmission(settings, await standing(db)) : [],
    settings,
    changes,
  };
}

function toAdmission(settings: readonly QueueSetting[], { depth, ages }: Standing): QueueAdmission[] {
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
        : [stateOf(queue, setting, live.get(queue) ?? 0, oldest.get(queue) ?? 0)];
    })
    .sort((a, b) => Number(b.full) - Number(a.full) || b.depth - a.depth || (a.queue < b.queue ? -1 : 1))
    .slice(0, mostQueues);
}

function stateOf(queue: string, setting: QueueSetting, depth: number, ageMs: number): QueueAdmission {
  const { admission, declaredAdmission } = setting;
  const { maxDepth = Infinity, maxAgeMs = Infinity } = admission ?? {};
  return {
    ...(admission as Admission),
    queue,
    setFor: setting.queue,
    source: JSON.stringify(admission) === JSON.stringify(declaredAdmission) ? "code" : "live",
    depth,
    ageMs,
    full: depth >= maxDepth || ageMs > maxAgeMs,
  };
}
