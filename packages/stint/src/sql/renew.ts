import type { Row, Run, RunOptions } from "../db/db.ts";
import { flag, number, readMany, text } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";

export type Renewal = {
  job: string;
  epoch: number;
  leaseId: string;
  /** False: another worker owns the job now, or it has ended. */
  held: boolean;
  /** False for one that is held but whose row was locked: its lease was not extended. Ask again soon. */
  renewed: boolean;
  cancelRequested: boolean;
};

/**
 * Rows that are being settled, cancelled or rescued at this moment are stepped over, never waited for: waiting on
 * several rows in one order while a settle takes them in another is a deadlock.
 */
const renewLeases = statement(
  "renew",
  `
  with mine as (
    select *
    -- In subselects, so that the planner does not see how many there are: see fences.ts.
    from unnest((select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::bigint[]))
      as m (id, epoch, lease_id, lease_ms)
  ), free as materialized (
    select j.id, j.lease_id, m.lease_ms
    from mine m
    join stint.job j on j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id
    for update of j skip locked
  ), renewed as (
    update stint.job j
    set lease_until = clock_timestamp() + free.lease_ms * interval '1 millisecond'
    from free
    where j.id = free.id and j.lease_id = free.lease_id
    returning j.id
  )
  select
    m.id, m.epoch, m.lease_id, j.id is not null as held, renewed.id is not null as renewed,
    coalesce(j.cancel_requested, false) as cancel_requested
  from mine m
  left join stint.job j on j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id
  left join renewed on renewed.id = j.id`,
);

function toRenewal(row: Row): Renewal {
  return {
    job: text(row, "id"),
    epoch: number(row, "epoch"),
    leaseId: text(row, "lease_id"),
    held: flag(row, "held"),
    renewed: flag(row, "renewed"),
    cancelRequested: flag(row, "cancel_requested"),
  };
}

/** Extend the leases that are still ours, in one round trip, and learn which are not. */
export async function renew(
  db: Run,
  leases: readonly (Fence & { leaseMs: number })[],
  options?: RunOptions,
): Promise<Renewal[]> {
  const values = [
    leases.map((lease) => lease.job),
    leases.map((lease) => lease.epoch),
    leases.map((lease) => lease.leaseId),
    leases.map((lease) => lease.leaseMs),
  ];
  return await readMany(db, renewLeases, values, toRenewal, options);
}
