import type { Db } from "../db/db.ts";
import { checkLimitName, checkOrderKey, requireMax } from "../model/limits.ts";
import { checkText } from "../model/names.ts";
import { refuseUnknownKeys, requireInteger } from "../model/options.ts";
import {
  limitAudit,
  limitKeys,
  limits,
  passOrder,
  setLimit,
  type Limit,
  type LimitAuditEntry,
  type LimitKey,
} from "../sql/limits.ts";
import { auditOf } from "./audit-of.ts";
import type { ActOptions } from "./jobs.ts";
import { withRetry } from "./retry.ts";

type Change = ActOptions & { reason: string };

/** Reads and changes limits. `stint.limits` is one. */
export class LimitsClient {
  readonly #run: <T>(work: (db: Db) => Promise<T>) => Promise<T>;
  readonly #actor: string;

  constructor(db: Db, actor: string, whileOpen: <T>(work: () => Promise<T>) => Promise<T>) {
    this.#actor = actor;
    // A change carries the id of its audit entry: sent again after a lost result, it changes nothing.
    this.#run = async (work) => await whileOpen(async () => await withRetry(db, work));
  }

  /** Every limit in force. */
  async list(): Promise<Limit[]> {
    return await this.#run(limits);
  }

  /**
   * The keys that jobs hold or wait for, those with the most waiting jobs first, at most 100. `name`: only those of this limit.
   *
   * @throws {InvalidOptionError} An option cannot work.
   */
  async keys(options: { name?: string; limit?: number } = {}): Promise<LimitKey[]> {
    refuseUnknownKeys("limits.keys", options, ["name", "limit"]);
    const { name, limit = 100 } = options;
    const most = requireInteger("limits.keys.limit", limit, { min: 1, max: 10_000 });
    const checked = name === undefined ? undefined : checkText(name, "limits.keys.name", { max: 768 });
    const { keys } = await this.#run(async (db) => await limitKeys(db, { name: checked, limit: most }));
    return keys;
  }

  /**
   * Change a limit, or make one: `queue:emails`, `kind:charge`, `tenant:charge` (each tenant of that kind), `tenant:*` (each tenant), `key:account`,
   * or one key of these, `key:account=42`. It applies to jobs that start from now on. Null returns to the value that code declared, or removes a
   * limit that no code declared. The change stays until a worker starts whose code declares another value than before. Undefined: there is no such
   * limit now.
   *
   * @throws {InvalidOptionError} The name or the value cannot work, or no reason is given.
   */
  async set(name: string, max: number | null, options: Change): Promise<Limit | undefined> {
    const checked = checkLimitName(name, "limits.set(name)");
    const value = max === null ? null : requireMax("limits.set(max)", max);
    const audit = auditOf("limits.set", options, this.#actor);
    return await this.#run(async (db) => await setLimit(db, checked, value, audit));
  }

  /**
   * Take the turn of an ordered key from the dead job that blocks it, so that the next job runs. Returns the id of the dead job; undefined: no dead
   * job blocks this key.
   *
   * @throws {InvalidOptionError} This is not an ordered key, or no reason is given.
   */
  async pass(key: string, options: Change): Promise<string | undefined> {
    const checked = checkOrderKey(key, "limits.pass(key)");
    const audit = auditOf("limits.pass", options, this.#actor);
    return (await this.#run(async (db) => await passOrder(db, checked, audit))) ?? undefined;
  }

  /** The newest 100 changes of a limit, newest first. */
  async audit(name: string): Promise<LimitAuditEntry[]> {
    const checked = checkLimitName(name, "limits.audit(name)");
    return await this.#run(async (db) => await limitAudit(db, checked));
  }
}
