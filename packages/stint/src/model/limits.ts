import { InvalidOptionError } from "../errors.ts";
import type { ResolvedUse } from "./dependencies.ts";
import { describe } from "./describe.ts";
import { checkName, checkText } from "./names.ts";
import { refuseUnknownKeys, requireFunction, requireInteger, requireOneOf } from "./options.ts";

/** How many jobs may run at once, over all workers. */
export type LimitOptions<Payload = never> = {
  /** From 1 to 1,000,000. Change it live by `stint.limits.set`. */
  max: number;
  /**
   * What is counted, if no `key` is given: all jobs of the kind (the default), all jobs of its queue, whatever their kind, or the jobs of each
   * tenant of the kind.
   */
  by?: "kind" | "queue" | "tenant";
  /** Jobs with the same key are counted together. Undefined: this job is not limited. */
  key?: (payload: Payload) => string | undefined;
  /** Kinds whose limits have the same name share them. Default: the limit belongs to the kind. */
  name?: string;
};

/** Jobs with the same key run one at a time, in the order in which they were enqueued. */
export type OrderOptions<Payload = never> = {
  /** Undefined: this job is not ordered. */
  key: (payload: Payload) => string | undefined;
  /** Kinds whose orders have the same name share them. Default: the order belongs to the kind. */
  name?: string;
  /**
   * When a job fails: "block" (the default) holds back the jobs behind it until it succeeds or is cancelled, also while it is dead. "pass" lets
   * them run; the failed job joins the end when it is retried.
   */
  onFailure?: "block" | "pass";
};

/** One checked limit of a kind. `rule` is its name in `stint.limit`. */
export type ResolvedLimit = {
  readonly rule: string;
  readonly max: number;
  readonly key: ((payload: never) => string | undefined) | undefined;
};

export type ResolvedOrder = {
  readonly rule: string;
  readonly key: (payload: never) => string | undefined;
};

/** What of a kind decides how many of its jobs run at once. */
export type KindLimits = {
  readonly limits: readonly ResolvedLimit[];
  readonly order: ResolvedOrder | undefined;
  readonly uses: readonly ResolvedUse[];
};

/** The limit of the concurrency of a dependency. */
export const dependencyKey = (name: string): string => `dependency:${name}`;

export const mostLimits = 16;
export const highestMax = 1_000_000;

/** @throws {InvalidOptionError} A limit cannot work. */
export function resolveLimits(
  option: string,
  { kind, queue }: { kind: string; queue: string },
  limits: readonly LimitOptions[],
): readonly ResolvedLimit[] {
  const given: unknown = limits;
  if (!Array.isArray(given))
    throw new InvalidOptionError(option, `must be an array of { max, key }, got ${describe(given)}`);
  if (given.length > mostLimits)
    throw new InvalidOptionError(option, `must have at most ${mostLimits} limits, got ${given.length}`);
  const resolved = limits.map((limit, index) =>
    resolveLimit(`${option}[${index}]`, kind, queue, limit, index),
  );
  const rules = resolved.map(({ rule }) => rule);
  const twice = rules.findIndex((rule, index) => rules.indexOf(rule) < index);
  if (twice !== -1)
    throw new InvalidOptionError(`${option}[${twice}]`, `is the limit ${rules[twice]} a second time`);
  return Object.freeze(resolved);
}

function resolveLimit(
  option: string,
  kind: string,
  queue: string,
  limit: LimitOptions,
  index: number,
): ResolvedLimit {
  refuseUnknownKeys(option, limit, ["max", "by", "key", "name"]);
  const max = requireMax(`${option}.max`, limit.max);
  const key = limit.key === undefined ? undefined : requireFunction(`${option}.key`, limit.key);
  if (limit.name !== undefined) {
    if (limit.by !== undefined)
      throw new InvalidOptionError(
        `${option}.by`,
        "cannot be given beside name. Use key to count by a value",
      );
    return { rule: `key:${checkName(limit.name, `${option}.name`)}`, max, key };
  }
  if (key !== undefined) {
    if (limit.by !== undefined) throw new InvalidOptionError(`${option}.by`, "cannot be given beside key");
    return { rule: `kind:${kind}#${index + 1}`, max, key };
  }
  const by =
    limit.by === undefined ? "kind" : requireOneOf(`${option}.by`, limit.by, ["kind", "queue", "tenant"]);
  return { rule: `${by}:${by === "queue" ? queue : kind}`, max, key };
}

export function requireMax(option: string, max: unknown): number {
  return requireInteger(option, max, { min: 1, max: highestMax });
}

/** @throws {InvalidOptionError} The order cannot work. */
export function resolveOrder(option: string, kind: string, order: OrderOptions): ResolvedOrder {
  refuseUnknownKeys(option, order, ["key", "name", "onFailure"]);
  const key = requireFunction(`${option}.key`, order.key);
  const name = order.name === undefined ? kind : checkName(order.name, `${option}.name`);
  const policy = order.onFailure ?? "block";
  requireOneOf(`${option}.onFailure`, policy, ["block", "pass"]);
  return { rule: `${policy === "block" ? "order" : "pass"}:${name}`, key };
}

/** The keys of one job, as its row carries them. Undefined: its kind has neither limits nor an order. */
export function limitKeys(
  what: string,
  { limits, order, uses }: KindLimits,
  payload: unknown,
): { limits: string[]; order?: string } | undefined {
  if (limits.length === 0 && order === undefined && uses.length === 0) return undefined;
  const keys = limits.flatMap(({ rule, key }, index) => {
    if (key === undefined) return rule.startsWith("key:") ? [rule] : [];
    return withValue(rule, key(payload as never), `${what}.limits[${index}].key`);
  });
  const turn =
    order === undefined ? [] : withValue(order.rule, order.key(payload as never), `${what}.order.key`);
  const [first] = turn;
  const dependencies = uses.map(({ name }) => dependencyKey(name));
  return { limits: [...turn, ...keys, ...dependencies], ...(first === undefined ? {} : { order: first }) };
}

function withValue(rule: string, value: unknown, option: string): string[] {
  return value === undefined ? [] : [`${rule}=${checkText(value, option)}`];
}

const rulePattern = /^(queue|kind|tenant|key):(\*|[A-Za-z0-9][A-Za-z0-9._:/-]{0,127})(#[0-9]{1,2})?(=.+)?$/;

/** Check the name of a limit: a rule, or one key of it. */
export function checkLimitName(value: unknown, option: string): string {
  const text = checkText(value, option, { max: 768 });
  if (rulePattern.test(text)) return text;
  throw new InvalidOptionError(
    option,
    "must be queue:NAME, kind:NAME, tenant:KIND, tenant:* or key:NAME, or one key of them, such as key:account=42, " +
      `got ${describe(value)}`,
  );
}

const orderPattern = /^(order|pass):[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}=.+$/;

/** Check an ordered key. */
export function checkOrderKey(value: unknown, option: string): string {
  const text = checkText(value, option, { max: 768 });
  if (orderPattern.test(text)) return text;
  throw new InvalidOptionError(
    option,
    `must be an ordered key, such as order:charge=42, got ${describe(value)}`,
  );
}
