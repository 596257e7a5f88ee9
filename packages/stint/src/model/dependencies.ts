import { InvalidOptionError, InvalidPayloadError } from "../errors.ts";
import { describe } from "./describe.ts";
import { toMs, type Duration } from "./duration.ts";
import { checkName, closest } from "./names.ts";
import { refuseUnknownKeys, requireFunction, requireInteger, requireOneOf } from "./options.ts";
import { findZone } from "./zone.ts";

const quotaPeriods = ["minute", "hour", "day", "week", "month"] as const;
export type QuotaPeriod = (typeof quotaPeriods)[number];

/** What an outside system allows, over all workers and all kinds that use it. A part that is left out does not limit. */
export type DependencyOptions = {
  /**
   * How many jobs may use it at once. With bounds: a `RateLimitedError` halves the number, down to `min` (default 1), and each `recover` (default
   * "10s") without another one raises it by 1, up to `max`.
   */
  concurrency?: number | { max: number; min?: number; recover?: Duration };
  /**
   * A token bucket: `limit` tokens are added each `per`, and at most `burst` are kept. In any time t, jobs take at most burst + limit * t / per
   * tokens. Default `burst`: what one second adds, at least 1.
   */
  rate?: { limit: number; per: Duration; burst?: number };
  /** Tokens for each minute, hour, day, week or month on the clocks of the zone. Default zone "UTC". */
  quota?: { limit: number; per: QuotaPeriod; zone?: string };
};

/** Checked `DependencyOptions`, as the database keeps them. */
export type DependencySettings = {
  readonly concurrency?: { readonly max: number; readonly min: number; readonly recoverMs: number };
  readonly rate?: { readonly limit: number; readonly perMs: number; readonly burst: number };
  readonly quota?: { readonly limit: number; readonly per: QuotaPeriod; readonly zone: string };
};

/** An outside system, declared once and shared by the kinds that use it. */
export type DependencyDefinition = { readonly dependency: string; readonly settings: DependencySettings };

/** A dependency of a kind: its definition or its name, with the tokens that one job takes (default 1). */
export type UseOptions<Payload = never> =
  | DependencyDefinition
  | string
  | {
      dependency: DependencyDefinition | string;
      /** The tokens that a job takes of the rate and of the quota: a whole number from 0. */
      cost?: (payload: Payload) => number;
    };

/** One checked dependency of a kind. */
export type ResolvedUse = {
  readonly name: string;
  /** Undefined: only the name was given. */
  readonly definition: DependencyDefinition | undefined;
  readonly cost: ((payload: never) => number) | undefined;
};

const keys = ["concurrency", "rate", "quota"] as const satisfies (keyof DependencyOptions)[];
export const mostUses = 8;
const highestCost = 1_000_000_000_000_000;

/**
 * Declare an outside system, such as an API, with what it allows. Kinds name it in `uses`.
 *
 * @throws {InvalidOptionError} The name or an option is not valid.
 */
export function defineDependency(name: string, options: DependencyOptions): DependencyDefinition {
  checkDependencyName(name, "defineDependency(name)");
  const settings = resolveSettings(`defineDependency("${name}")`, options);
  return Object.freeze({ dependency: name, settings });
}

export function checkDependencyName(value: unknown, option: string): string {
  const name = checkName(value, option);
  // The limit of its concurrency is called dependency:NAME.
  if (name.length > 116) throw new InvalidOptionError(option, "must have at most 116 characters");
  return name;
}

/** @throws {InvalidOptionError} An option is not valid. */
export function resolveSettings(what: string, options: DependencyOptions): DependencySettings {
  refuseUnknownKeys(what, options, keys);
  const { concurrency, rate, quota } = options;
  return Object.freeze({
    ...(concurrency === undefined
      ? {}
      : { concurrency: resolveConcurrency(`${what}.concurrency`, concurrency) }),
    ...(rate === undefined ? {} : { rate: resolveRate(`${what}.rate`, rate) }),
    ...(quota === undefined ? {} : { quota: resolveQuota(`${what}.quota`, quota) }),
  });
}

function resolveConcurrency(
  option: string,
  given: NonNullable<DependencyOptions["concurrency"]>,
): NonNullable<DependencySettings["concurrency"]> {
  const options = typeof given === "object" ? given : { max: given };
  refuseUnknownKeys(option, options, ["max", "min", "recover"]);
  const max = requireInteger(typeof given === "object" ? `${option}.max` : option, options.max, {
    min: 1,
    max: 1_000_000,
  });
  const min = requireInteger(`${option}.min`, options.min ?? 1, { min: 1, max });
  return {
    max,
    min,
    recoverMs: toMs(options.recover ?? "10s", `${option}.recover`, { min: 1, max: 86_400_000 }),
  };
}

const highestLimit = 1_000_000_000;
const longestPerMs = 366 * 86_400_000;

function resolveRate(
  option: string,
  rate: NonNullable<DependencyOptions["rate"]>,
): NonNullable<DependencySettings["rate"]> {
  refuseUnknownKeys(option, rate, ["limit", "per", "burst"]);
  const limit = requireInteger(`${option}.limit`, rate.limit, { min: 1, max: highestLimit });
  const perMs = toMs(rate.per, `${option}.per`, { min: 1, max: longestPerMs });
  const ofASecond = Math.min(highestLimit, Math.max(1, Math.floor((limit * 1_000) / perMs)));
  const burst = requireInteger(`${option}.burst`, rate.burst ?? ofASecond, { min: 1, max: highestLimit });
  return { limit, perMs, burst };
}

function resolveQuota(
  option: string,
  quota: NonNullable<DependencyOptions["quota"]>,
): NonNullable<DependencySettings["quota"]> {
  refuseUnknownKeys(option, quota, ["limit", "per", "zone"]);
  return {
    limit: requireInteger(`${option}.limit`, quota.limit, { min: 1, max: highestCost }),
    per: requireOneOf(`${option}.per`, quota.per, quotaPeriods),
    zone: findZone(quota.zone ?? "UTC", `${option}.zone`).name,
  };
}

/** @throws {InvalidOptionError} A dependency of the kind is not valid. */
export function resolveUses(option: string, uses: readonly UseOptions[]): readonly ResolvedUse[] {
  const given: unknown = uses;
  if (!Array.isArray(given))
    throw new InvalidOptionError(option, `must be an array of dependencies, got ${describe(given)}`);
  if (given.length > mostUses)
    throw new InvalidOptionError(option, `must have at most ${mostUses} dependencies, got ${given.length}`);
  const resolved = uses.map((use, index) => resolveUse(`${option}[${index}]`, use));
  const names = resolved.map(({ name }) => name);
  const twice = names.findIndex((name, index) => names.indexOf(name) < index);
  if (twice !== -1)
    throw new InvalidOptionError(`${option}[${twice}]`, `is the dependency "${names[twice]}" a second time`);
  return Object.freeze(resolved);
}

function resolveUse(option: string, use: UseOptions): ResolvedUse {
  if (typeof use === "string")
    return { name: checkDependencyName(use, option), definition: undefined, cost: undefined };
  if (isDefinition(use)) return { name: use.dependency, definition: use, cost: undefined };
  refuseUnknownKeys(option, use, ["dependency", "cost"]);
  const cost = use.cost === undefined ? undefined : requireFunction(`${option}.cost`, use.cost);
  const { dependency } = use;
  if (isDefinition(dependency)) return { name: dependency.dependency, definition: dependency, cost };
  return { name: checkDependencyName(dependency, `${option}.dependency`), definition: undefined, cost };
}

function isDefinition(value: unknown): value is DependencyDefinition {
  const given = value as Partial<DependencyDefinition> | null;
  return typeof given === "object" && given !== null && typeof given.settings === "object";
}

/** @throws {InvalidOptionError} This was not made by `defineDependency`. */
export function requireDependency(value: unknown, option: string): DependencyDefinition {
  if (isDefinition(value)) return value;
  throw new InvalidOptionError(option, `must be made by defineDependency, got ${describe(value)}`);
}

/** The tokens that a job takes of one dependency. */
export type TokenCost = { readonly name: string; readonly cost: number };

/**
 * The tokens that a job takes of each dependency of its kind. `declared`: dependencies that the kind may use by name.
 *
 * @throws {InvalidPayloadError} A cost is not a whole number, or more than its dependency can ever give at once.
 */
export function costsOf(
  kind: string,
  uses: readonly ResolvedUse[],
  payload: unknown,
  declared?: DeclaredDependencies,
): TokenCost[] {
  return uses.map(({ name, definition, cost: costOf }) => {
    const cost: unknown = costOf === undefined ? 1 : costOf(payload as never);
    const problem = costProblem(cost, definition?.settings ?? declared?.get(name));
    if (problem !== undefined)
      throw new InvalidPayloadError(kind, "payload", `costs ${describe(cost)} of "${name}", ${problem}`);
    return { name, cost: cost as number };
  });
}

function costProblem(cost: unknown, settings: DependencySettings = {}): string | undefined {
  if (typeof cost !== "number" || !Number.isSafeInteger(cost) || cost < 0 || cost > highestCost)
    return "which must be a whole number from 0";
  const { rate, quota } = settings;
  if (rate !== undefined && cost > rate.burst) return `more than its burst of ${rate.burst}`;
  if (quota !== undefined && cost > quota.limit) return `more than its quota of ${quota.limit}`;
  return undefined;
}

/** What code declares: dependencies, by name. */
export type DeclaredDependencies = ReadonlyMap<string, DependencySettings>;

/**
 * Check that every name has one declaration.
 *
 * @throws {InvalidOptionError} Two declarations of one name differ.
 */
export function declaredDependencies(
  option: string,
  definitions: readonly DependencyDefinition[],
): DeclaredDependencies {
  const declared = new Map<string, DependencySettings>();
  for (const { dependency, settings } of definitions) {
    const other = declared.get(dependency);
    if (other !== undefined && JSON.stringify(other) !== JSON.stringify(settings))
      throw new InvalidOptionError(option, `declares "${dependency}" twice with different settings`);
    declared.set(dependency, settings);
  }
  return declared;
}

/** @throws {InvalidOptionError} A kind uses a dependency that neither code nor the database knows. */
export function refuseUnknownUses(
  uses: ReadonlyMap<string, readonly ResolvedUse[]>,
  known: readonly string[],
): void {
  for (const [kind, of] of uses) {
    const unknown = of.find(({ name }) => !known.includes(name));
    if (unknown === undefined) continue;
    const suggestion = closest(unknown.name, known);
    throw new InvalidOptionError(
      `defineJob("${kind}").uses`,
      `names "${unknown.name}", which is not declared` +
        (suggestion === undefined ? "" : `; did you mean "${suggestion}"?`) +
        ". Declare it by defineDependency, and pass it in uses or in createStint({ dependencies })",
    );
  }
}

/** A live change. Parts that are left out stay; null removes a part. */
export type DependencyOptionsChange = { [part in keyof DependencyOptions]?: DependencyOptions[part] | null };

/** @throws {InvalidOptionError} An option is not valid. */
export function resolveChange(
  what: string,
  change: DependencyOptionsChange,
): { [part in keyof DependencySettings]: DependencySettings[part] | null } {
  refuseUnknownKeys(what, change, keys);
  const removed = keys.filter((key) => change[key] === null);
  const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== null));
  return { ...resolveSettings(what, given), ...Object.fromEntries(removed.map((key) => [key, null])) };
}
