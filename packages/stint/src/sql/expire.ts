import type { Run } from "../db/db.ts";
import { json, numberOrNull, readOne } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { expiredReason } from "../model/expiry.ts";
import type { IdleCheckPart } from "./idle-check.ts";
import { afterFollowUps, followed, ofEnded, tallied, toHistory } from "./transitions.ts";

/** A job that expired while it waited. */
export type Expired = { readonly id: string; readonly queue: string; readonly kind: string };

export type Expiry = {
  readonly expired: readonly Expired[];
  /** Time until the next waiting job expires, by the database's clock; null: none does. */
  readonly nextMs: number | null;
};

/** Running jobs finish, however long that takes. Their index entries are few: as many as slots. */
const nextToExpire = `
      select extract(epoch from e.expires_at - clock_timestamp()) * 1000
      from stint.job e
      where e.expires_at is not null
        and e.state <> 'running'
      order by e.expires_at
      limit 1`;

const expireJobs = statement(
  "expire",
  `
  with late as materialized (
    select j.id
    from stint.job j
    where j.expires_at <= stint.by_index(transaction_timestamp())
      and j.state <> 'running'
    order by j.expires_at
    limit $1
    for update skip locked
  ), ${toHistory(
    { using: "late", where: "j.id = late.id and j.state <> 'running'" },
    { state: "'cancelled'::stint.job_state", reason: `'${expiredReason}'` },
    "id, queue, kind",
  )}, tallied as (
    ${tallied("gone", { was: ["scheduled", "ready", "retrying", "parked"], becomes: ["cancelled"] })}
  ), ${followed("gone", ofEnded)}
  select
    (select coalesce(jsonb_agg(jsonb_build_object('id', id, 'queue', queue, 'kind', kind)), '[]') from ended) as expired,
    (${nextToExpire.replace("and e.state", "and e.expires_at > transaction_timestamp()\n        and e.state")}
    )::float8 as next_ms
  where ${afterFollowUps}`,
);

/** Cancel waiting jobs that are too old to run. */
export async function expire(db: Run, limit: number): Promise<Expiry> {
  return await readOne(db, expireJobs, [limit], (row) => ({
    expired: json<Expired[]>(row, "expired"),
    nextMs: numberOrNull(row, "next_ms"),
  }));
}

/** When the next waiting job expires. */
export const nextExpired: IdleCheckPart = { sql: nextToExpire, endsSleep: true };
