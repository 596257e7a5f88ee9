import { InvalidOptionError } from "../errors.ts";
import { resolveAdmission, type Admission, type AdmissionSettings } from "./admission.ts";
import { resolveFair, type Fair, type FairSettings } from "./fairness.ts";
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
  /**
   * Share the workers among tenants: `"tenant"`, or with weights `{ by: "tenant", weights: { acme: 3 } }`. Each tenant with ready jobs takes its turn;
   * priorities order the jobs of one tenant. False: by priority and time, whatever a pattern that matches this queue says. Default: by priority and time.
   */
  fair?: FairSettings | false;
  /**
   * A job that has waited for longer than this gets a share of the claims, whatever its priority. False: none does, whatever a pattern says. Default:
   * a job waits while others of a smaller priority are ready.
   */
  aging?: Duration | false;
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
  /** How the queue shares its workers among tenants; null: the next pattern decides, else it does not. */
  readonly fair: Fair | null;
  readonly declaredFair: Fair | null;
  /** 0: no aging, whatever the patterns say; null: the next pattern decides. */
  readonly agingMs: number | null;
  readonly declaredAgingMs: number | null;
  readonly updatedAt: Date;
  readonly updatedBy: string;
};

/** What decides the target age of queues. */
export type TargetSetting = Pick<QueueSetting, "queue" | "targetAgeMs" | "declaredTargetAgeMs">;

/** What code declares, by name or pattern. */
export type DeclaredQueues = ReadonlyMap<
  string,
  {
    readonly targetAgeMs: number | null;
    readonly admission: AdmissionSettings | null;
    readonly fair: Fair | null;
    readonly agingMs: number | null;
  }
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
const settingNames = ["targetAge", "admission", "fair", "aging"] as const satisfies (keyof QueueSettings)[];

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
      const { targetAge, admission, fair, aging } = settings;
      refuseBoth(option, settings);
      return [
        name,
        {
          targetAgeMs: targetAge === undefined ? null : toAgeMs(targetAge, option),
          admission: admission === undefined ? null : resolveAdmission(`${option}.admission`, admission),
          fair: fair === undefined ? null : resolveFair(`${option}.fair`, fair),
          agingMs: aging === undefined ? null : toAgingMs(aging, option),
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
  const { targetAge, admission, fair, aging } = change;
  refuseBoth(what, change);
  if (settingNames.every((name) => change[name] === undefined))
    throw new InvalidOptionError(what, `names no setting. Settings are: ${settingNames.join(", ")}`);
  return {
    ...(targetAge === undefined ? {} : { targetAge: targetAge === null ? null : toAgeMs(targetAge, what) }),
    ...(admission === undefined
      ? {}
      : { admission: admission === null ? null : resolveAdmission(`${what}.admission`, admission) }),
    ...(fair === undefined ? {} : { fair: fair === null ? null : resolveFair(`${what}.fair`, fair) }),
    ...(aging === undefined ? {} : { aging: aging === null ? null : agingValue(aging, what) }),
  };
}

/** A change as SQL takes it. */
export type ResolvedQueueChange = {
  readonly targetAge?: number | null;
  readonly admission?: AdmissionSettings | null;
  readonly fair?: Fair | null;
  readonly aging?: number | false | null;
};

/** In a fair queue, priorities are compared within a tenant only, so there is nothing to age. */
function refuseBoth(what: string, { fair, aging }: QueueChange): void {
  if (fair && aging)
    throw new InvalidOptionError(`${what}.aging`, "cannot be set together with fair: choose one of them");
}

/** Shorter than this, every waiting job would be old. */
const shortestAgingMs = 1_000;

function toAgingMs(aging: Duration | false, option: string): number {
  return aging === false ? 0 : toMs(aging, `${option}.aging`, { min: shortestAgingMs, max: longestMs });
}

function agingValue(aging: Duration | false, option: string): number | false {
  return aging === false ? false : toAgingMs(aging, option);
}

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
