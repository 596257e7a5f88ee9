import { InvalidOptionError } from "../errors.ts";
import { checkDependencyName } from "./dependencies.ts";
import type { ClaimedJob } from "./job.ts";
import { checkNameOrPattern, matchesPattern } from "./name-pattern.ts";
import { checkText } from "./names.ts";
import { refuseUnknownKeys } from "./options.ts";
import { QueueMap } from "./queue-pattern.ts";

/** What can be paused. */
export const pauseScopes = ["queue", "kind", "tenant", "key", "dependency"] as const;
export type PauseScope = (typeof pauseScopes)[number];

/** What to pause or resume: exactly one of these. Queues and kinds may be patterns, such as `tenant-*`. */
export type PauseTarget =
  | { queue: string }
  | { kind: string }
  | { tenant: string }
  | { key: string }
  | { dependency: string };

/** The scope and the name of a pause. */
export type PauseId = { readonly scope: PauseScope; readonly name: string };

/** A pause that is in force. */
export type Pause = PauseId & {
  /** When it ends by itself; null: when it is resumed. */
  readonly until: Date | null;
  readonly reason: string;
  readonly pausedBy: string;
  readonly pausedAt: Date;
  /** Jobs that are parked because of it. Jobs of paused queues, kinds and dependencies stay ready and are not counted here. */
  readonly parkedJobs: number;
};

/**
 * Check what is to be paused or resumed.
 *
 * @throws {InvalidOptionError} It is not exactly one scope, or its name cannot work.
 */
export function resolvePauseTarget(what: string, target: PauseTarget): PauseId {
  refuseUnknownKeys(what, target, pauseScopes);
  const given = pauseScopes.filter((scope) => Object.hasOwn(target, scope));
  const [scope] = given;
  if (scope === undefined || given.length > 1) {
    throw new InvalidOptionError(
      what,
      `must name one of ${pauseScopes.join(", ")}, such as { queue: "emails" }, got ${given.length === 0 ? "none" : given.join(" and ")}`,
    );
  }
  const value: unknown = (target as Record<string, unknown>)[scope];
  const option = `${what}.${scope}`;
  if (scope === "dependency") return { scope, name: checkDependencyName(value, option) };
  const name =
    scope === "queue" || scope === "kind" ? checkNameOrPattern(value, option) : checkText(value, option);
  return { scope, name };
}

const noKinds: ReadonlySet<string> = new Set();
const noQueues = new QueueMap<true>([]);

/** The pauses in force, as a worker looks them up: for each claim, and for each claimed job. */
export class PauseSet {
  static readonly none = new PauseSet([]);
  readonly queues: QueueMap<true>;
  readonly #kinds: readonly string[];
  readonly #tenants: ReadonlySet<string>;
  readonly #keys: ReadonlySet<string>;
  /** The same text for the same pauses. */
  readonly #text: string;

  constructor(pauses: readonly PauseId[]) {
    const names = (scope: PauseScope): string[] =>
      pauses.filter((pause) => pause.scope === scope).map(({ name }) => name);
    const queues = names("queue");
    this.queues = queues.length === 0 ? noQueues : new QueueMap(queues.map((queue) => [queue, true]));
    this.#kinds = names("kind");
    this.#tenants = new Set(names("tenant"));
    this.#keys = new Set(names("key"));
    this.#text = JSON.stringify(pauses.map(({ scope, name }) => `${scope}:${name}`).sort());
  }

  get isEmpty(): boolean {
    return this.#text === "[]";
  }

  equals(other: PauseSet): boolean {
    return this.#text === other.#text;
  }

  /** Which of these kinds are paused. */
  kindsOf(served: Iterable<string>): ReadonlySet<string> {
    if (this.#kinds.length === 0) return noKinds;
    return new Set(
      [...served].filter((kind) => this.#kinds.some((pattern) => matchesPattern(pattern, kind))),
    );
  }

  /** Whether this job must not start now. */
  holds(job: Pick<ClaimedJob, "queue" | "kind" | "tenant" | "key">): boolean {
    if (this.isEmpty) return false;
    return (
      this.queues.has(job.queue) ||
      this.#kinds.some((pattern) => matchesPattern(pattern, job.kind)) ||
      this.parks(job) !== undefined
    );
  }

  /** The pause of its tenant or key, for which this job is parked. */
  parks({ tenant, key }: Pick<ClaimedJob, "tenant" | "key">): PauseId | undefined {
    if (tenant !== null && this.#tenants.has(tenant)) return { scope: "tenant", name: tenant };
    if (key !== null && this.#keys.has(key)) return { scope: "key", name: key };
    return undefined;
  }
}
