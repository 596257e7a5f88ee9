import type { DbTx, Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";

/** A transaction, known by when it began and, unless a pooler hides it, by its backend. */
export type LostTransaction = Pick<DbTx, "begunAt" | "backend">;

const waitMs = 1_000;

const endLost = statement(
  "end-transaction",
  `
  select coalesce(bool_and(pg_terminate_backend(a.pid, ${waitMs})), true) as over
  from pg_stat_activity a
  where a.usename = session_user
    and a.datname = current_database()
    and (extract(epoch from a.xact_start) * 1000000)::bigint = $1::bigint
    and ($2::integer is null or a.pid = $2::integer)`,
);

/**
 * End a transaction whose connection was lost. Its backend may not have noticed: until its keepalive fails, up to two hours later, it
 * would keep the row of the job locked, and still execute a COMMIT that is on its way. Returns whether the transaction is over.
 */
export async function endTransaction(db: Run, { begunAt, backend }: LostTransaction): Promise<boolean> {
  const [row] = await db.run(endLost, [begunAt, backend ?? null]);
  return row?.["over"] === true;
}
