import type { DbTx, Run } from "../db/db.ts";
import { statement, type Statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import { logWith, type Ending } from "./attempt-log.ts";
import { fenced, fencesIn, fenceValues } from "./fences.ts";
import { afterFollowUps, followed, ofEnded, plain, planned, tallied, toHistory } from "./transitions.ts";

export type Finish = {
  fence: Fence;
  state: "succeeded" | "dead" | "cancelled";
  /** JSON text. */
  result: string | null;
  reason: string | null;
  /** Null for a success: the finished row itself has all of it. */
  ending: Ending | null;
  /** JSON text: what the handler asked for with its success, as `stint.run_plan` takes it. */
  plan?: string;
};

/** A job that its isolated handler crashed: the attempt is not spent. */
const hasCrashed = `m.ending is not null and m.ending::jsonb ->> 'outcome' = 'crashed'`;

const finished = {
  state: "m.state::stint.job_state",
  attempts: `j.attempts - case when ${hasCrashed} then 1 else 0 end`,
  crashes: `j.crashes + case when ${hasCrashed} then 1 else 0 end`,
  reason: `case when m.state = 'cancelled' and j.cancel_requested then coalesce(stint.cancel_reason(j.id), m.reason) else m.reason end`,
  result: "m.result::jsonb",
  log: `case when m.ending is null then j.log else ${logWith("j", "m.ending::jsonb")} end`,
};

/** `only` is a further condition. With `follows`, the follow-ups and the plans of the jobs run in the same statement. */
const finishing = (only: string, follows: boolean): string => `
  with mine as (
    select *
    from unnest(
        (select $1::uuid[]), (select $2::bigint[]), (select $3::uuid[]), (select $4::text[]), (select $5::text[]),
        (select $6::text[]), (select $7::text[])${follows ? ", (select $8::text[])" : ""}
      ) as m (id, epoch, lease_id, state, result, reason, ending${follows ? ", plan" : ""})
  ), ${toHistory({ using: "mine m", where: `${fenced}${only}` }, finished, "id, epoch, lease_id", follows ? `, ${planned}` : "")}, tallied as (
    ${tallied("gone", { was: ["running"], becomes: ["succeeded", "dead", "cancelled"] })}
  )${follows ? `, ${followed("gone", [...ofEnded, "plan"])}` : ""}
  select id, epoch, lease_id from ended${follows ? ` where ${afterFollowUps}` : ""}`;

const finishJobs = statement("finish", finishing(` and ${plain}`, false));
const finishFollowed = statement(
  "finish-followed",
  finishing(" and (j.has_follow_ups or m.plan is not null)", true),
);

/** Move jobs that ended into history, each only if its fence still holds. Returns the fences that did. */
export async function finish(db: Run, jobs: readonly Finish[]): Promise<Set<Fence>> {
  const unplanned = jobs.filter(({ plan }) => plan === undefined);
  const ended = unplanned.length === 0 ? new Set<Fence>() : await send(db, finishJobs, unplanned);
  return ended.size === jobs.length
    ? ended
    : new Set([...ended, ...(await finishWithFollowUps(db, jobs, ended))]);
}

/**
 * Finish those of these jobs that are not among `ended` because they have follow-ups. The statements of plain jobs leave them alone, so that only a
 * batch in which a job is missing pays for a second statement.
 */
export async function finishWithFollowUps(
  db: Run,
  jobs: readonly Finish[],
  ended: ReadonlySet<Fence>,
): Promise<Set<Fence>> {
  const left = jobs.filter(({ fence }) => !ended.has(fence));
  return await send(db, finishFollowed, left, [left.map(({ plan }) => plan ?? null)]);
}

async function send(
  db: Run,
  statement: Statement,
  jobs: readonly Finish[],
  more: readonly unknown[] = [],
): Promise<Set<Fence>> {
  const fences = jobs.map((job) => job.fence);
  const rows = await db.run(statement, [
    ...fenceValues(fences),
    jobs.map((job) => job.state),
    jobs.map((job) => job.result),
    jobs.map((job) => job.reason),
    jobs.map((job) => (job.ending === null ? null : JSON.stringify(job.ending))),
    ...more,
  ]);
  return fencesIn(rows, fences);
}

const begunAt = `(extract(epoch from transaction_timestamp()) * 1000000)::bigint`;
const finishLent = statement("finish-lent", finishing(` and ${begunAt} = $9::bigint`, true));
const isBegunAt = statement("is-begun-at", `select ${begunAt} = $1::bigint as same`);

/**
 * Record a success in the transaction that the handler was given, if that transaction is still the one that began at this time.
 * After a raw commit or rollback by the handler, the success would be written without the handler's own writes.
 */
export async function finishInLent(
  tx: DbTx,
  fence: Fence,
  result: string | null,
  plan: string | undefined,
): Promise<"finished" | "lost" | "another transaction"> {
  const rows = await tx.run(finishLent, [
    ...fenceValues([fence]),
    ["succeeded"],
    [result],
    [null],
    [null],
    [plan ?? null],
    tx.begunAt,
  ]);
  if (rows.length > 0) return "finished";
  const [row] = await tx.run(isBegunAt, [tx.begunAt]);
  return row?.["same"] === true ? "lost" : "another transaction";
}
