import { PgDb } from "../db/pg.ts";
import type { ServerClock } from "../db/server-clock.ts";
import type { ResolvedStintOptions } from "./options.ts";

export type OpenDbOptions = {
  connections: number;
  applicationName?: string;
  statementTimeoutMs?: number;
  clock?: ServerClock;
};

/** Opens the databases of one client. Logs a detected pooler once for all of them. */
export function dbOpener({
  connection = {},
  pool,
  schema,
  prepare,
  logger,
}: ResolvedStintOptions): (options: OpenDbOptions) => PgDb {
  const logged = new Set<string>();
  const onPooler = (how: "detected" | "statements lost"): void => {
    if (logged.has(how)) return;
    logged.add(how);
    if (how === "detected")
      logger.info(
        { prepare: prepare ?? false },
        "a pooler stands between: settings hold for one statement only",
      );
    else
      logger.warn(
        {},
        "a pooler lost named statements: sending them unnamed from now on. Pass prepare: false to createStint",
      );
  };
  return ({ applicationName = "stint", ...options }) =>
    new PgDb({
      ...options,
      connection,
      pool,
      schema,
      transactions: 5,
      applicationName,
      prepare,
      deadlineMs: 15_000,
      connectDeadlineMs: 5_000,
      onError: (error) => logger.debug({ err: error }, "a connection was lost"),
      onPooler,
    });
}
