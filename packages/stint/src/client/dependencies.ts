import type { Db } from "../db/db.ts";
import { checkDependencyName, resolveChange, type DependencyOptionsChange } from "../model/dependencies.ts";
import {
  dependencies,
  dependencyAudit,
  setDependency,
  type DependencyStatus,
  type DependencyAuditEntry,
} from "../sql/dependencies.ts";
import { auditOf } from "./audit-of.ts";
import type { ActOptions } from "./jobs.ts";
import { withRetry } from "./retry.ts";

/** Reads and changes dependencies. `stint.dependencies` is one. */
export class DependenciesClient {
  readonly #actor: string;
  readonly #run: <T>(work: (db: Db) => Promise<T>) => Promise<T>;

  constructor(db: Db, actor: string, whileOpen: <T>(work: () => Promise<T>) => Promise<T>) {
    this.#actor = actor;
    // A change carries the id of its audit entry: sent again after a lost result, it changes nothing.
    this.#run = async (work) => await whileOpen(async () => await withRetry(db, work));
  }

  /** Every dependency that a worker has declared, with its values of this moment, at most 1,000. */
  async list(): Promise<DependencyStatus[]> {
    return await this.#run(async (db) => await dependencies(db));
  }

  /** One dependency; undefined if there is none of this name. */
  async get(name: string): Promise<DependencyStatus | undefined> {
    const checked = checkDependencyName(name, "dependencies.get(name)");
    const [found] = await this.#run(async (db) => await dependencies(db, checked));
    return found;
  }

  /**
   * Change what a dependency allows, or make one. Parts that are left out stay; null removes a part. Null instead of the change returns to what code
   * declared. It applies to jobs that start from now on, ends a slow-down, and stays until a worker starts whose code declares other settings than
   * before.
   *
   * @throws {InvalidOptionError} The name or an option cannot work, or no reason is given.
   */
  async set(
    name: string,
    change: DependencyOptionsChange | null,
    options: ActOptions & { reason: string },
  ): Promise<DependencyStatus> {
    const what = "dependencies.set";
    const checked = checkDependencyName(name, `${what}(name)`);
    const resolved = change === null ? null : resolveChange(what, change);
    const audit = auditOf(what, options, this.#actor);
    return await this.#run(async (db) => {
      await setDependency(db, checked, resolved, audit);
      const [found] = await dependencies(db, checked);
      if (found === undefined) throw new Error(`dependency ${checked} was deleted`);
      return found;
    });
  }

  /** The newest 100 changes, declarations and pauses of a dependency, newest first. */
  async audit(name: string): Promise<DependencyAuditEntry[]> {
    const checked = checkDependencyName(name, "dependencies.audit(name)");
    return await this.#run(async (db) => await dependencyAudit(db, checked));
  }
}
