import { SchemaVersionError } from "../errors.ts";
import { settledWithin } from "../runtime/sleep.ts";
import type { Worker } from "../worker/worker.ts";

/** "ok", or the reason why not. */
export type Health = "ok" | "loops are late" | "not started" | "draining" | "database" | "schema";

/** What the checks read from a worker. */
export type Checked = Pick<Worker, "state" | "overdueMs" | "sinceLastLookMs" | "check">;

/** A loop waits at most 15 s for a statement and runs a few of them. A loop that is later than this is stuck. */
const mostOverdueMs = 120_000;
const databaseWithinMs = 2_000;
/** The database is checked at most this often, whatever the number of requests. */
const checkEveryMs = 1_000;

/** Liveness, startup and readiness of the workers of a process. */
export class Checks {
  readonly #workers: readonly Checked[];
  #checking: Promise<Health> | undefined;
  #nextCheckAt = 0;

  constructor(workers: readonly Checked[]) {
    this.#workers = workers;
  }

  /** Whether the loops of every worker run. The database is not checked: restarting every worker during its outage would not help. */
  live(): Health {
    return this.#workers.every(({ overdueMs }) => overdueMs < mostOverdueMs) ? "ok" : "loops are late";
  }

  /** Whether every worker has started and has received a reply of the database. */
  started(): Health {
    const hasBegun = ({ state, sinceLastLookMs }: Checked): boolean =>
      state === "stopping" || state === "stopped" || (state === "running" && sinceLastLookMs !== undefined);
    return this.#workers.every(hasBegun) ? "ok" : "not started";
  }

  /** Whether every worker takes jobs: started, not draining, database reachable with a fitting schema. */
  async ready(): Promise<Health> {
    const states = this.#workers.map(({ state }) => state);
    if (states.some((state) => state === "stopping" || state === "stopped")) return "draining";
    if (states.some((state) => state !== "running")) return "not started";
    const now = performance.now();
    if (this.#checking === undefined || now >= this.#nextCheckAt) {
      this.#nextCheckAt = now + checkEveryMs;
      this.#checking = this.#database();
    }
    return await this.#checking;
  }

  /** One result for all workers: the workers of a process share one database. */
  async #database(): Promise<Health> {
    let found: Health = "database";
    const checked = Promise.all(this.#workers.map(async (worker) => await worker.check())).then(
      () => {
        found = "ok";
      },
      (error: unknown) => {
        if (error instanceof SchemaVersionError) found = "schema";
      },
    );
    await settledWithin(databaseWithinMs, checked);
    return found;
  }
}
