import type { DbTx, Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { logWith, type Ending } from "./ending.ts";
import { fenced, fencesIn, fenceValues } from "./fences.ts";
import { tallied, toHistory } from "./transitions.ts";

export type Finish = {
  fence: Fence;
  state: "succeeded" | "dead" | "cancelled";
  /** JSON text. */
  result: string | null;
  reason: string | null;
  /** Null for a success: the finished row itself has all of it. */
  ending: Ending | null;
};

const finished = {
  state: "m.state::stint.job_state",
  reason: `case when m.state = 'cancelled' and j.cancel_requested then coalesce(stint.cancel_reason(j.id), m.reason) else m.reason end`,
  result: "m.result::jsonb",
  log: `case when m.ending is null then j.log else ${logWith("j", "m.ending::jsonb")} end`,
};

/** `only` is a further condition. */
const finishing = (only: string): string => `
  with mine as (
    select *
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::text[]), (select $5::text[]),
        (select $6::text[]), (select $7::text[])
      ) as m (id, epoch, lease_id, state, result, reason, ending)
  ), ${toHistory({ using: "mine m", where: `${fenced}${only}` }, finished, "id, epoch, lease_id")}, tallied as (
    ${tallied("gone", { was: ["running"], becomes: ["succeeded", "dead", "cancelled"] })}
  )
  select id, epoch, lease_id from ended`;

const finishJobs = statement("finish", finishing(""));

/** Move jobs that ended into history, each only if its fence still holds. Returns the fences that did. */
export async function finish(db: Run, jobs: readonly Finish[]): Promise<Set<Fence>> {
  const fences = jobs.map((job) => job.fence);
  const rows = await db.run(finishJobs, [
    ...fenceValues(fences),
    jobs.map((job) => job.state),
    jobs.map((job) => job.result),
    jobs.map((job) => job.reason),
    jobs.map((job) => (job.ending === null ? null : JSON.stringify(job.ending))),
  ]);
  return fencesIn(rows, fences);
}

const begunAt = `(extract(epoch from transaction_timestamp()) * 1000000)::bigint`;
const finishLent = statement("finish-lent", finishing(` and ${begunAt} = $8::bigint`));
const isBegunAt = statement("is-begun-at", `select ${begunAt} = $1::bigint as same`);

/**
 * Record a success in the transaction that the handler was given, if that transaction is still the one that began at this time.
 * After a raw commit or rollback by the handler, the success would be written without the handler's own writes.
 */
export async function finishInLent(
  tx: DbTx,
  fence: Fence,
  result: string | null,
): Promise<"finished" | "lost" | "another transaction"> {
  const rows = await tx.run(finishLent, [
    ...fenceValues([fence]),
    ["succeeded"],
    [result],
    [null],
    [null],
    tx.begunAt,
  ]);
  if (rows.length > 0) return "finished";
  const [row] = await tx.run(isBegunAt, [tx.begunAt]);
  return row?.["same"] === true ? "lost" : "another transaction";
}
