import type { Db } from "../db/db.ts";
import { checkNameOrPattern } from "../model/name-pattern.ts";
import { refuseUnknownDelays } from "../model/admission.ts";
import { resolveQueueChange, type QueueChange, type QueueSetting } from "../model/queue-settings.ts";
import { dependencies } from "../sql/dependencies.ts";
import {
  forgetQueue,
  queueAudit,
  queueSettings,
  setQueue,
  type QueueAuditEntry,
} from "../sql/queue-settings.ts";
import { auditOf } from "./audit-of.ts";
import type { ActOptions } from "./jobs.ts";
import { withRetry } from "./retry.ts";

type Change = ActOptions & { reason: string };

/** Reads and changes the settings of queues. `stint.queueSettings` is one. */
export class QueueSettingsClient {
  readonly #run: <T>(work: (db: Db) => Promise<T>) => Promise<T>;
  readonly #actor: string;

  constructor(db: Db, actor: string, whileOpen: <T>(work: () => Promise<T>) => Promise<T>) {
    this.#actor = actor;
    // A change carries the id of its audit entry: sent again after a lost result, it changes nothing.
    this.#run = async (work) => await whileOpen(async () => await withRetry(db, work));
  }

  /** The settings of every name and pattern that has any. */
  async list(): Promise<QueueSetting[]> {
    return await this.#run(queueSettings);
  }

  /** The newest 100 changes of the settings of a queue or pattern, newest first. */
  async audit(queue: string): Promise<QueueAuditEntry[]> {
    const name = checkNameOrPattern(queue, "queueSettings.audit(queue)");
    return await this.#run(async (db) => await queueAudit(db, name));
  }

  /**
   * Change settings of a queue, or of all queues that a pattern matches. Settings that are left out stay; null returns one to the
   * value that code declared. The change stays until a worker starts whose code declares another value than before.
   *
   * @throws {InvalidOptionError} The name, a setting or its value cannot work, or no reason is given.
   */
  async set(queue: string, change: QueueChange, options: Change): Promise<QueueSetting> {
    const name = checkNameOrPattern(queue, "queueSettings.set(queue)");
    const settings = resolveQueueChange("queueSettings.set", change);
    const audit = auditOf("queueSettings.set", options, this.#actor);
    return await this.#run(async (db) => {
      if (change.admission?.maxDelay !== undefined) {
        const known = (await dependencies(db)).map((each) => each.name);
        refuseUnknownDelays("queueSettings.set.admission", change.admission, known);
      }
      return await setQueue(db, name, settings, audit);
    });
  }

  /**
   * Delete the settings of a queue or pattern, also the declared ones: for names that code no longer declares. Returns whether there
   * were any. A worker whose code still declares them writes them again when it starts.
   */
  async forget(queue: string, options: Change): Promise<boolean> {
    const name = checkNameOrPattern(queue, "queueSettings.forget(queue)");
    const audit = auditOf("queueSettings.forget", options, this.#actor);
    return await this.#run(async (db) => await forgetQueue(db, name, audit));
  }
}
