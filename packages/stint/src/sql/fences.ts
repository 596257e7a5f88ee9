import type { Row } from "../db/db.ts";
import { number, text } from "../db/row.ts";
import { keyOfFence, type Fence } from "../model/job.ts";

// The parts that every fenced write has in common: how fences are sent, matched and read back.

/**
 * The fences of a statement, as `mine`. Arrays in subselects hide their length from the planner: for hundreds of fences it would
 * rather read the whole table once than look each of them up.
 */
export const mine = `mine as (
    select * from unnest((select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[])) as m (id, epoch, lease_id)
  )`;

/** The live job `j` is still the attempt that the fence `m` names. */
export const fenced = `j.id = m.id and j.epoch = m.epoch and j.lease_id = m.lease_id`;

/**
 * The jobs of `mine` whose fences hold, locked, by their ordinals. No rescue takes such a job over between the check of the fence and the
 * commit. Locked rows are stepped over and never waited for: two sessions that wait for rows in different orders would deadlock.
 */
export const held = `held as materialized (
    select m.ordinal
    from mine m
    join stint.job j on ${fenced}
    for no key update of j skip locked
  )`;

/** The first three parameters of every fenced statement. */
export function fenceValues(fences: readonly Fence[]): string[] {
  return [
    arrayOf(fences.map((fence) => fence.job)),
    arrayOf(fences.map((fence) => fence.epoch)),
    arrayOf(fences.map((fence) => fence.leaseId)),
  ];
}

/** A Postgres array of ids or numbers. They need no quoting, and the driver's own encoding scans every character for it. */
export function arrayOf(values: readonly (string | number)[]): string {
  return `{${values.join()}}`;
}

export function toFence(row: Row): Fence {
  return { job: text(row, "id"), epoch: number(row, "epoch"), leaseId: text(row, "lease_id") };
}

/**
 * The given fences that the rows name. They are not matched by job alone: one worker may hold a stale and a current attempt of
 * the same job, and both may end in one statement.
 */
export function fencesIn(rows: readonly Row[], fences: readonly Fence[]): Set<Fence> {
  const keys = new Set(rows.map((row) => keyOfFence(toFence(row))));
  return new Set(fences.filter((fence) => keys.has(keyOfFence(fence))));
}
