import type { Run } from "../db/db.ts";
import { toTimestamp } from "../db/server-clock.ts";
import {
  columns,
  number,
  oneOf,
  readOne,
  text,
  textOrNull,
  texts,
  orNull,
  readMany,
  time,
} from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Fence } from "../model/job.ts";
import type { Notify } from "./enqueue.ts";
import type { IdleCheckPart } from "./idle-check.ts";
import { isInside, type InsideStatement } from "./inside.ts";
import { unparked } from "./park.ts";
import { tallied } from "./transitions.ts";

/** A signal to be sent. `target` is the id or the key of its job. */
export type SignalRow = {
  id: string;
  target: string;
  kind: string | null;
  name: string;
  /** JSON text. */
  payload: string;
  sender: string;
};

export type SignalSent = {
  status: "sent" | "absent" | "ended" | "undeclared" | "ambiguous";
  job: string | null;
  kind: string | null;
  state: string | null;
  /** The signals that the kind declares. */
  declared: string[] | null;
};

// Names of one word: a client may turn `job_id` into `jobId`.
const returned = `status, job_id as job, kind, state, declared`;
const sendSignal = statement(
  "send-signal",
  `
  select ${returned}
  from stint.send_signal($1::uuid, $2::text, $3::text, $4::text, $5::text::jsonb, $6::text, $7::boolean, $8::timestamptz)`,
);

const sendSignalInside = statement(
  "send-signal-inside",
  `
  select s.*
  from (select ${isInside("$8")} as inside) here
  cross join lateral (
    select ${returned}
    from stint.send_signal($1::uuid, $2::text, $3::text, $4::text, $5::text::jsonb, $6::text, $7::boolean)
  ) s
  where here.inside`,
);

const toSignalSent = columns<SignalSent>({
  status: oneOf(["sent", "absent", "ended", "undeclared", "ambiguous"]),
  job: textOrNull,
  kind: textOrNull,
  state: textOrNull,
  declared: orNull(texts),
});

const valuesOf = (row: SignalRow, notify: Notify): unknown[] => [
  row.id,
  row.target,
  row.kind,
  row.name,
  row.payload,
  row.sender,
  notify ?? null,
];

/** Store a signal for one live job. A repeat with the same id is the same signal. `until`: its deadline, by the database's clock. */
export async function sendSignalOnce(
  db: Run,
  row: SignalRow,
  notify: boolean,
  until: number,
): Promise<SignalSent> {
  return await readOne(db, sendSignal, [...valuesOf(row, notify), toTimestamp(until)], toSignalSent);
}

/** The same within the transaction `xid`, and in no other: `read` returns undefined there. */
export function signalStatementInside(
  row: SignalRow,
  notify: Notify,
  xid: string | undefined,
): InsideStatement<SignalSent> {
  return {
    statement: sendSignalInside,
    values: [...valuesOf(row, notify), xid ?? null],
    read: ([row]) => (row === undefined ? undefined : toSignalSent(row)),
  };
}

export type Received = {
  /** `none`: it is not there, and the wait has not timed out. `lost`: the fence no longer holds. */
  outcome: "received" | "timed-out" | "none" | "lost";
  payload: unknown;
};

const receive = statement(
  "receive-signal",
  `select outcome, payload from stint.receive_signal($1::uuid, $2::bigint, $3::uuid, $4::integer, $5::text, $6::text)`,
);

const readOutcome = oneOf(["received", "timed-out", "none", "lost"]);

/** Take the oldest signal of this name and remember it as the result of the step, or remember that the wait has timed out. */
export async function receiveSignal(
  db: Run,
  { job, epoch, leaseId }: Fence,
  wait: { seq: number; step: string; signal: string },
): Promise<Received> {
  const values = [job, epoch, leaseId, wait.seq, wait.step, wait.signal];
  return await readOne(db, receive, values, (row) => ({
    outcome: readOutcome(row, "outcome"),
    payload: row["payload"] ?? null,
  }));
}

// Only jobs whose row can be locked at once are looked at: waiting would block the settling of others, or deadlock with it. The signals of
// the others stay undelivered for the next try. `awaits_signal` is called once the row is locked, and takes a new snapshot.
const deliverSignals = statement(
  "deliver",
  `
  with sent as materialized (
    select s.id, s.job_id, s.name
    from stint.signal s
    where not s.delivered and s.id >= stint.by_index('00000000-0000-0000-0000-000000000000'::uuid)
    order by s.id
    limit $1
    for update skip locked
  ), held as materialized (
    select j.id, j.state, j.park_reason
    from sent
    join stint.job j on j.id = stint.by_index(sent.job_id)
    for no key update of j skip locked
  ), awaited as materialized (
    select h.id
    from held h
    join sent on sent.job_id = h.id
    where h.state = 'parked' and h.park_reason = 'signal' and stint.awaits_signal(h.id, sent.name)
  ), moved as (
    update stint.job j
    set state = 'ready', run_at = clock_timestamp(), ${unparked}
    from awaited a
    where j.id = a.id and j.state = 'parked' and j.park_reason = 'signal'
    returning j.id, j.queue, j.kind, j.priority
  ), tallied as (
    ${tallied("moved", { was: ["parked"], becomes: ["ready"] })}
  ), done as (
    update stint.signal s
    set delivered = true
    from sent
    where s.id = sent.id
      and (
        exists (select from held h where h.id = sent.job_id)
        or (select true from stint.job j where j.id = stint.by_index(sent.job_id) limit 1) is null
      )
    returning s.id
  )
  select
    (select count(*) from sent)::integer as found,
    (select count(*) from done)::integer as delivered,
    array(select distinct queue::text from moved) as queues`,
);

/** How many signals were found undelivered, how many of them are delivered now, and the queues of the jobs that became ready. */
export type Delivery = { found: number; delivered: number; queues: string[] };

/** Make the jobs ready that wait for signals sent since the last delivery. */
export async function deliver(db: Run, limit: number): Promise<Delivery> {
  return await readOne(db, deliverSignals, [limit], (row) => ({
    found: number(row, "found"),
    delivered: number(row, "delivered"),
    queues: texts(row, "queues"),
  }));
}

/** Whether a signal has to be delivered. */
export const undelivered: IdleCheckPart = {
  sql: `select 0 where exists (select from stint.signal s where not s.delivered)`,
  endsSleep: true,
};

/** A signal that its job has not received yet. */
export type SignalView = {
  readonly id: string;
  readonly name: string;
  readonly payload: unknown;
  readonly sentAt: Date;
  readonly sentBy: string | null;
};

const listSignals = statement(
  "signals",
  `
  select id, name, case when pg_column_size(payload) <= 8192 then payload end as payload, sent_at, sent_by
  from stint.signal
  where job_id = $1
  order by sent_at, id
  limit $2`,
);

/** Signals that the job has not received yet, oldest first. */
export async function signalsOf(db: Run, jobId: string, limit: number): Promise<SignalView[]> {
  return await readMany(db, listSignals, [jobId, limit], (row) => ({
    id: text(row, "id"),
    name: text(row, "name"),
    payload: row["payload"] ?? null,
    sentAt: time(row, "sent_at"),
    sentBy: textOrNull(row, "sent_by"),
  }));
}
