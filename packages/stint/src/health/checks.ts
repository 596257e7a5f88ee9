import { SchemaVersionError } from "../errors.ts";
import { settledWithin } from "../runtime/sleep.ts";
import type { Worker } from "../worker/worker.ts";

/** How it stands, or why not well. */
export type Health = "ok" | "loops are late" | "not started" | "draining" | "database" | "schema";

/** What the checks ask of a worker. */
export type Checked = Pick<Worker, "state" | "overdueMs" | "sinceLastLookMs" | "check">;

/** A loop waits for a statement for 15 s at most, and does a few of them: what is late for longer will not come back. */
const mostOverdueMs = 120_000;
const databaseWithinMs = 2_000;
/** However many ask, the database is asked this often. */
const askEveryMs = 1_000;

/** The three questions that whoever runs processes asks of them. */
export class Checks {
  readonly #workers: readonly Checked[];
  #asking: Promise<Health> | undefined;
  #askAgainAt = 0;

  constructor(workers: readonly Checked[]) {
    this.#workers = workers;
  }

  /** Whether its loops move. The database is not asked: during its outage a restart of every worker would help nobody. */
  live(): Health {
    return this.#workers.every(({ overdueMs }) => overdueMs < mostOverdueMs) ? "ok" : "loops are late";
  }

  /** Whether every worker has started and has heard from the database once. */
  started(): Health {
    const hasBegun = ({ state, sinceLastLookMs }: Checked): boolean =>
      state === "stopping" || state === "stopped" || (state === "running" && sinceLastLookMs !== undefined);
    return this.#workers.every(hasBegun) ? "ok" : "not started";
  }

  /** Whether it takes jobs: started, not draining, and with a database that fits. */
  async ready(): Promise<Health> {
    const states = this.#workers.map(({ state }) => state);
    if (states.some((state) => state === "stopping" || state === "stopped")) return "draining";
    if (states.some((state) => state !== "running")) return "not started";
    const now = performance.now();
    if (this.#asking === undefined || now >= this.#askAgainAt) {
      this.#askAgainAt = now + askEveryMs;
      this.#asking = this.#database();
    }
    return await this.#asking;
  }

  /** Workers of one process have one database. */
  async #database(): Promise<Health> {
    let found: Health = "database";
    const asked = Promise.all(this.#workers.map(async (worker) => await worker.check())).then(
      () => {
        found = "ok";
      },
      (error: unknown) => {
        if (error instanceof SchemaVersionError) found = "schema";
      },
    );
    await settledWithin(databaseWithinMs, asked);
    return found;
  }
}
