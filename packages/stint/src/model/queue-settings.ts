import { InvalidOptionError } from "../errors.ts";
import { resolveAdmission, type Admission, type AdmissionSettings } from "./admission.ts";
import { longestMs, toMs, type Duration } from "./duration.ts";
import { checkNameOrPattern } from "./name-pattern.ts";
import { refuseUnknownKeys } from "./options.ts";
import { QueueMap } from "./queue-pattern.ts";

/** Settings of a queue, or of every queue that a pattern matches. */
export type QueueSettings = {
  /** The oldest ready job should be younger than this. Health, alerts and autoscaling compare with it. Default "5m". */
  targetAge?: Duration;
  /** How many jobs the queue takes, and what happens to an enqueue beyond that. Default: it takes any number. */
  admission?: AdmissionSettings;
};

/** A change of settings. What is left out stays; null returns to the value that code declared. */
export type QueueChange = { [Setting in keyof QueueSettings]?: QueueSettings[Setting] | null };

/** A row of `stint.queue`: the settings of one name or pattern. */
export type QueueSetting = {
  /** A queue, or a pattern such as `tenant-*`. `*` is for all queues. */
  readonly queue: string;
  /** The value in force; null: the next pattern decides, else the default. */
  readonly targetAgeMs: number | null;
  /** The value that code declared last; null: none. */
  readonly declaredTargetAgeMs: number | null;
  readonly admission: Admission | null;
  readonly declaredAdmission: Admission | null;
  readonly updatedAt: Date;
  readonly updatedBy: string;
};

/** What decides the target age of queues. */
export type TargetSetting = Pick<QueueSetting, "queue" | "targetAgeMs" | "declaredTargetAgeMs">;

/** What code declares, by name or pattern. */
export type DeclaredQueues = ReadonlyMap<
  string,
  { readonly targetAgeMs: number | null; readonly admission: AdmissionSettings | null }
>;

/** Where the target age of a queue comes from: the default of Stint, a declaration in code, or a live change. */
const targetSources = ["default", "code", "live"] as const;
export type TargetSource = (typeof targetSources)[number];

/** The target age of one queue. `setFor`: the name or pattern that decided; null: none did. */
export type TargetAge = {
  readonly ms: number;
  readonly source: TargetSource;
  readonly setFor: string | null;
};

/** A job that waits longer than five minutes is noticed by the person who waits for its result. */
const defaultTargetAgeMs = 300_000;
const settingNames = ["targetAge", "admission"] as const satisfies (keyof QueueSettings)[];

/**
 * Check what code declares for its queues.
 *
 * @throws {InvalidOptionError} A name, a setting or a value cannot work.
 */
export function resolveQueues(what: string, queues: Readonly<Record<string, QueueSettings>>): DeclaredQueues {
  // Any name may be a queue's: this checks only that it is an object.
  refuseUnknownKeys(what, queues, Object.keys(queues ?? {}));
  return new Map(
    Object.entries(queues).map(([name, settings]) => {
      const option = `${what}.${checkNameOrPattern(name, what)}`;
      refuseUnknownKeys(option, settings, settingNames);
      const { targetAge, admission } = settings;
      return [
        name,
        {
          targetAgeMs: targetAge === undefined ? null : toAgeMs(targetAge, option),
          admission: admission === undefined ? null : resolveAdmission(`${option}.admission`, admission),
        },
      ];
    }),
  );
}

/**
 * Check a change of settings, and write it as SQL takes it.
 *
 * @throws {InvalidOptionError} A setting or a value cannot work.
 */
export function resolveQueueChange(what: string, change: QueueChange): ResolvedQueueChange {
  refuseUnknownKeys(what, change, settingNames);
  const { targetAge, admission } = change;
  if (targetAge === undefined && admission === undefined)
    throw new InvalidOptionError(what, `names no setting. Settings are: ${settingNames.join(", ")}`);
  return {
    ...(targetAge === undefined ? {} : { targetAge: targetAge === null ? null : toAgeMs(targetAge, what) }),
    ...(admission === undefined
      ? {}
      : { admission: admission === null ? null : resolveAdmission(`${what}.admission`, admission) }),
  };
}

/** A change as SQL takes it. */
export type ResolvedQueueChange = {
  readonly targetAge?: number | null;
  readonly admission?: AdmissionSettings | null;
};

function toAgeMs(age: Duration, option: string): number {
  return toMs(age, `${option}.targetAge`, { min: 1, max: longestMs });
}

/** Finds the target age of a queue: its own setting, else that of the longest pattern, else the default. */
export function targetAges(settings: readonly TargetSetting[]): (queue: string) => TargetAge {
  const byQueue = new QueueMap(
    settings.flatMap(({ queue, targetAgeMs, declaredTargetAgeMs }): [string, TargetAge][] => {
      if (targetAgeMs === null) return [];
      const source = targetAgeMs === declaredTargetAgeMs ? "code" : "live";
      return [[queue, { ms: targetAgeMs, source, setFor: queue }]];
    }),
  );
  return (queue) => byQueue.get(queue) ?? { ms: defaultTargetAgeMs, source: "default", setFor: null };
}
