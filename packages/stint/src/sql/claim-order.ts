import type { Run } from "../db/db.ts";
import { json, numberOrNull, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Fair } from "../model/fairness.ts";
import type { IdleCheckPart } from "./idle-check.ts";

/** A queue or pattern that is claimed in another order than by priority and time. */
export type ClaimOrderSetting = {
  readonly queue: string;
  /** Null: the next pattern decides. */
  readonly fair: Fair | null;
  /** 0: no aging, whatever the patterns say. Null: the next pattern decides. */
  readonly agingMs: number | null;
};

/** An expression: every such setting, as a JSON array. */
export const claimOrders = `(
    select coalesce(jsonb_agg(jsonb_build_object('queue', q.name, 'fair', q.fair, 'agingMs', q.aging_ms)), '[]')
    from stint.queue q
    where q.fair is not null or q.aging_ms is not null
  )`;

const tend = statement(
  "tend-claim-order",
  `select stint.adopt_fair($1) as next_ms, ${claimOrders} as orders`,
);

/**
 * Read the settings, and give at most `limit` jobs that were enqueued before their queue became fair their place in it. `nextMs`: after how long to go
 * on with that; null: all have it.
 */
export async function tendClaimOrder(
  db: Run,
  limit: number,
): Promise<{ nextMs: number | null; orders: ClaimOrderSetting[] }> {
  return await readOne(db, tend, [limit], (row) => ({
    nextMs: numberOrNull(row, "next_ms"),
    orders: json<ClaimOrderSetting[]>(row, "orders"),
  }));
}

/** Whether some queue has such a setting. */
export const anyClaimOrder: IdleCheckPart = {
  sql: `
      select 1000 where exists (
        select from stint.queue q
        where (q.fair is not null or q.aging_ms is not null) and q.name >= stint.by_index((select ''::text))
      )`,
  endsSleep: false,
};
