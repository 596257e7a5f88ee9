import { isTerminal, type JobState } from "../model/state.ts";
import { endedColumns, lastingColumns, select, type Values } from "./job-columns.ts";
import { toTallies } from "./tallies.ts";

// How a job moves: from the live table to the history, back, and from one live state to another. Every statement that moves jobs is made
// of these parts, so that none forgets a column, the tallies or the audit.

/** The live jobs `j` that a statement moves: a further relation to join with, and the condition. */
type Picked = { readonly using?: string; readonly where: string };

const using = (relation: string | undefined): string =>
  relation === undefined ? "" : `\n    using ${relation}`;

/**
 * live → history. `gone` holds the jobs as they are written to history, and the state they left as `was`; `ended` returns `returning`,
 * if the statement needs it. The columns not in `set` stay as they are.
 */
export const toHistory = (
  picked: Picked,
  set: Values & { state: string; reason: string },
  returning?: string,
  /** Further columns of `gone`. */
  also = "",
): string => `gone as (
    delete from stint.job j${using(picked.using)}
    where ${picked.where}
    returning ${select("j", endedColumns, { finished_at: "clock_timestamp()", result: "null::jsonb", ...set })}, j.state as was, j.has_follow_ups${also}
  ), ended as (
    insert into stint.history (${endedColumns.join(", ")})
    select ${endedColumns.join(", ")} from gone${returning === undefined ? "" : `\n    returning ${returning}`}
  )`;

/**
 * history → live: ready at once, with fresh attempts. The epoch continues: a worker left over from an earlier run must never match
 * again. `gone` holds the jobs as they are written, and the state they left as `was`; `back` returns `returning`.
 */
export const toLive = (picked: Picked, returning: string): string => `gone as (
    delete from stint.history h${using(picked.using)}
    where ${picked.where}
    returning ${select("h", replayedColumns, freshRun)}, h.state as was
  ), back as (
    insert into stint.job (${replayedColumns.join(", ")})
    select ${replayedColumns.join(", ")} from gone
    returning ${returning}
  )`;

/** Whether any queue has settings beside its target age: one look at an index that is empty otherwise. */
const someQueueHasRules =
  "exists (select from stint.queue q where (q.admission is not null or q.fair is not null or q.aging_ms is not null) and q.name >= stint.by_index((select ''::text)))";

const replayedColumns = [...lastingColumns, "fair_tenant", "has_follow_ups"] as const;

const freshRun: Values = {
  state: "'ready'::stint.job_state",
  run_at: "clock_timestamp()",
  run: "h.run + 1",
  attempts: "0",
  crashes: "0",
  faults: "0",
  lease_id: "null::uuid",
  worker: "null::text",
  claimed_at: "null::timestamptz",
  reason: "null::text",
  // A person wants it to run, however late.
  expires_at: "null::timestamptz",
  fair_tenant: `case when ${someQueueHasRules} then stint.fair_tenant(h.queue, h.tenant) end`,
  has_follow_ups:
    "case when stint.is_ordered(h.limits[1]) then true else (select true from stint.flow_job m where m.job_id = h.id) end",
};

/**
 * Returns the replayed jobs in `back` to their flows: they wait again for jobs that have not ended, and others wait for them again. Strict queues may
 * refuse them. The final select must ask for `afterRejoining`.
 */
export const rejoined = `rejoined as (
    select stint.rejoin_flows(array_agg(id)) as ran
    from back
    where has_follow_ups
    having count(*) > 0
  ), readmitted as (
    select stint.readmit(array_agg(id), array_agg(queue), array_agg(tenant)) as ran
    from gone
    where ${someQueueHasRules}
    having count(*) > 0
  )`;

export const afterRejoining = `(select count(ran) from rejoined) + (select count(ran) from readmitted) >= 0`;

/** What a live job loses when it leaves `running`. */
export const unleased = `lease_id = null,
        lease_until = null,
        worker = null,
        claimed_at = null`;

/** The trace of the job's first attempt, beside the trace it was enqueued in. Only where `m.first` has one. */
export const firstTrace = `meta = case when m.first is null then j.meta else coalesce(j.meta, '{}') || jsonb_build_object('trace',
          coalesce(j.meta -> 'trace', '{}') || jsonb_build_object('first', m.first)) end,`;

/** The live job `j` has no follow-ups, as nearly every job. */
export const plain = `j.has_follow_ups is null`;

/**
 * Runs the follow-ups of the jobs in `moved`, in the same statement: once for all of them, and not at all if none has any. The final select of
 * the statement must ask for `afterFollowUps`, because Postgres evaluates no part of a query that nothing refers to. `also` names further columns of
 * `moved`: the result and the reason of jobs that may have ended, and the plan that a handler made for what follows.
 */
export const followed = (moved: string, also: readonly ("result" | "reason" | "plan")[] = []): string => {
  const more = also.map((column) => `, p_${column}s => array_agg(${column})`).join("");
  return `followed as (
    select stint.run_follow_ups(array_agg(id), array_agg(state)${more}) as ran
    from ${moved}
    where has_follow_ups${also.includes("plan") ? " or plan is not null" : ""}
    having count(*) > 0
  )`;
};

/** Everything that `gone` knows of jobs that ended. */
export const ofEnded = ["result", "reason"] as const;

/**
 * The plan `m.plan` that the handler of the live job `j` made, with what its continuation may inherit, and whether a cancel was requested: a chain or
 * a series that was cancelled must not continue.
 */
export const planned = `case when m.plan is not null or j.cancel_requested then coalesce(m.plan::jsonb, '{}') || jsonb_strip_nulls(jsonb_build_object(
        'kind', j.kind, 'dedupe_key', case when j.dedupe_until = 'finished' then j.dedupe_key end,
        'cancelled', nullif(j.cancel_requested, false))) end as plan`;

export const afterFollowUps = `(select count(ran) from followed) >= 0`;

const countedStates = ["scheduled", "retrying", "parked", "dead"] as const satisfies JobState[];

/**
 * What a move adds to the tallies, in one row for each queue, kind and priority of `moved`. Several states in `becomes` are
 * distinguished by the column `state` of `moved`, several in `was` by its column `was`.
 */
export function tallied(
  moved: string,
  { was, becomes }: { readonly was: readonly JobState[]; readonly becomes: readonly JobState[] },
): string {
  const columns = new Map<string, string>();
  const [entering, leaving] = [becomes, was].map((states) => states.filter(isTerminal));
  const live = sum(count("was", was, leaving ?? []), count("state", becomes, entering ?? []));
  if (live !== "") columns.set("live", live);
  for (const state of countedStates) {
    const on = (states: readonly JobState[]): JobState[] => states.filter((other) => other === state);
    const change = sum(count("state", becomes, on(becomes)), count("was", was, on(was)));
    if (change !== "") columns.set(state, change);
  }
  // A job that runs and becomes ready, or the reverse, changes nothing: it adds no row.
  const counts = (state: JobState): boolean =>
    isTerminal(state) || (countedStates as readonly JobState[]).includes(state);
  const counted = becomes.filter(counts);
  const idle = !was.some(counts) && counted.length < becomes.length;
  return `${toTallies([...columns.keys()].join(", "))}
    select queue, kind, priority, ${[...columns.values()].join(", ")}
    from ${moved}${idle ? `\n    where state in (${quoted(counted)})` : ""}
    group by queue, kind, priority`;
}

/** How many rows have one of `some` in `column`, of `all` that occur there. */
function count(column: string, all: readonly JobState[], some: readonly JobState[]): string {
  if (some.length === 0) return "";
  return some.length === all.length ? "count(*)" : `count(*) filter (where ${column} in (${quoted(some)}))`;
}

function sum(plus: string, minus: string): string {
  return minus === "" ? plus : `${plus === "" ? "" : `${plus} `}- ${minus}`;
}

function quoted(states: readonly JobState[]): string {
  return states.map((state) => `'${state}'`).join(", ");
}

/** The actor and the reason of an operation, written in the same statement as the move. */
export type AuditInfo = {
  auditId: string;
  actor: string;
  reason: string | null;
  /** Until when the action may take effect, by the database's clock in milliseconds. Left out: at any time. */
  until?: number;
};

/** One audit row for each job in `rows`. The other values are SQL expressions. */
export const audited = (
  action: "cancel" | "run-now" | "replay",
  { id, actor, reason, job, rows }: { id: string; actor: string; reason: string; job: string; rows: string },
): string => `insert into stint.audit (id, actor, action, reason, job_id)
    select ${id}::uuid, ${actor}::text, '${action}', ${reason}::text, ${job} from ${rows}`;
