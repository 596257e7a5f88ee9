import { migrate } from "stint/dev";
import type { FillState } from "../core/types.ts";
import { payloadSql, type Sql } from "./sql.ts";

/** The kind and the queue of every job here. */
export const kind = "noop";
export const queue = "default";

/** Stint's tables, for Stint and for the bare SQL. Created from scratch, so that the previous cell has no effect. */
export async function prepareTables(sql: Sql, url: string): Promise<void> {
  await sql.run("set client_min_messages = warning; drop schema if exists stint cascade");
  await migrate({ connection: url });
}

export async function fillTables(sql: Sql, count: number, state: FillState): Promise<void> {
  await sql.run(state === "finished" ? fillHistory : fillJobs(state), [count]);
  // Rows written without the library are not in the tallies.
  await sql.run("select stint.recount()");
  await sql.run("vacuum analyze");
}

export async function tablesPending(sql: Sql): Promise<boolean> {
  const any = (state: string): string => `exists (select from stint.job where state = '${state}')`;
  return await sql.isTrue(["ready", "running", "retrying", "parked"].map(any).join(" or "));
}

const fillJobs = (state: FillState): string => `
  insert into stint.job (id, kind, queue, state, run_at, created_at, payload)
  select stint.new_id(), '${kind}', '${queue}', '${state}', at + interval '${state === "scheduled" ? "1 day" : "0"}', at, ${payloadSql}
  from generate_series(1, $1) n
  -- One time for both columns, as in an enqueue. It refers to n, or it would be the same for all rows.
  cross join lateral (select clock_timestamp() + n * interval '0' as at) made`;

const fillHistory = `
  insert into stint.history (
    id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, epoch, run, payload)
  select stint.new_id(), '${kind}', '${queue}', 'succeeded', 0, now(), now(), now(), 1, 0, 0, 1, 1, ${payloadSql}
  from generate_series(1, $1) n`;
