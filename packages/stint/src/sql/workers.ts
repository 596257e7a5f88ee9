import type { Row, Run } from "../db/db.ts";
import { flag, json, number, orNull, readMany, readOne, text, texts, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { claimOrders, type ClaimOrderSetting } from "./claim-order.ts";
import { limitRules } from "./limits.ts";
import { unresponsiveAfterMs } from "../model/liveness.ts";
import type { Vitals } from "./series.ts";

export type WorkerInfo = {
  id: string;
  host: string;
  pid: number;
  version: string;
  /** Slots by queue. */
  pools: Record<string, number>;
  kinds: readonly string[];
};

export type LiveWorker = WorkerInfo & {
  startedAt: Date;
  seenAt: Date;
  listening: boolean;
  draining: boolean;
  /** In sleep mode: idle and without heartbeats until the next wake. */
  asleep: boolean;
};

/** A worker, its last reported vitals (null before the first report), and the time since its last heartbeat. */
export type WatchedWorker = LiveWorker & { vitals: Vitals | null; heartbeatAgeMs: number };

/** The state that a worker reports of itself. */
export type WorkerState = { listening: boolean; draining?: boolean; asleep?: boolean; vitals?: Vitals };

/** Whether worker `w` is responsive: it sent a heartbeat lately, or is asleep. */
export const isResponsive = `(w.asleep or w.seen_at > statement_timestamp() - interval '${unresponsiveAfterMs} milliseconds')`;

const putWorker = statement(
  "register-worker",
  `
  insert into stint.worker (id, host, pid, version, pools, kinds)
  values ($1, $2, $3, $4, $5::text::jsonb, $6)
  on conflict (id) do update
    set host = excluded.host, pid = excluded.pid, version = excluded.version, pools = excluded.pools, kinds = excluded.kinds,
        started_at = clock_timestamp(), seen_at = clock_timestamp(), listening = false, draining = false,
        asleep = false
  returning current_setting('max_prepared_transactions') <> '0' as prepared, ${limitRules} as rules,
    exists (select from stint.pause) as paused, ${claimOrders} as orders`,
);

/** What a worker needs to know before its first claim. */
export type Registered = {
  /** Whether wakes may be missing: enqueues in a transaction send none on a server with prepared transactions. */
  readonly wakesMissing: boolean;
  /** The limits of queues, kinds and tenants that are in force. */
  readonly limits: readonly string[];
  /** Whether anything is paused. */
  readonly paused: boolean;
  /** The queues that are claimed in another order than by priority and time. */
  readonly orders: readonly ClaimOrderSetting[];
};

export async function registerWorker(db: Run, worker: WorkerInfo): Promise<Registered> {
  const { id, host, pid, version, pools, kinds } = worker;
  const values = [id, host, pid, version, JSON.stringify(pools), kinds];
  return await readOne(db, putWorker, values, (row) => ({
    wakesMissing: flag(row, "prepared"),
    limits: texts(row, "rules"),
    paused: flag(row, "paused"),
    orders: json<ClaimOrderSetting[]>(row, "orders"),
  }));
}

const touchWorker = statement(
  "heartbeat",
  `
  update stint.worker
  set seen_at = clock_timestamp(), listening = $2, draining = $3, asleep = $4, vitals = coalesce($5::text::jsonb, vitals)
  where id = $1
  returning id`,
);

/** Send a heartbeat. False: the row was deleted because the worker did not respond; register it again. */
export async function heartbeat(
  db: Run,
  id: string,
  { listening, draining = false, asleep = false, vitals }: WorkerState,
): Promise<boolean> {
  return (
    (
      await db.run(touchWorker, [
        id,
        listening,
        draining,
        asleep,
        vitals === undefined ? null : JSON.stringify(vitals),
      ])
    ).length > 0
  );
}

const putPools = statement(
  "set-worker-pools",
  `update stint.worker set pools = $2::text::jsonb where id = $1`,
);

/** The slots of a worker have changed. */
export async function setWorkerPools(db: Run, id: string, pools: WorkerInfo["pools"]): Promise<void> {
  await db.run(putPools, [id, JSON.stringify(pools)]);
}

const deleteWorker = statement("forget-worker", `delete from stint.worker where id = $1`);

export async function forgetWorker(db: Run, id: string): Promise<void> {
  await db.run(deleteWorker, [id]);
}

/** How a stop went. */
export type StopFigures = {
  /** Attempts that ended during the stop. */
  readonly drained: number;
  /** Jobs that were released with nothing spent. */
  readonly released: number;
  /** From the request to stop until nothing ran any more. */
  readonly ms: number;
};

const stopWorker = statement(
  "stop-worker",
  `
  with gone as (
    delete from stint.worker where id = $1 returning id, host, version, started_at
  )
  insert into stint.worker_stop (worker, host, version, started_at, drained, released, ms)
  select id, host, version, started_at, $2, $3, $4 from gone`,
);

/** Delete the row of a worker that has stopped, and keep how its stop went. */
export async function recordStop(db: Run, id: string, { drained, released, ms }: StopFigures): Promise<void> {
  await db.run(stopWorker, [id, drained, released, Math.round(ms)]);
}

/** A worker that has stopped. A worker that was killed leaves none. */
export type WorkerStop = StopFigures & {
  readonly worker: string;
  readonly host: string;
  readonly version: string;
  readonly startedAt: Date;
  readonly stoppedAt: Date;
};

const selectStops = statement(
  "worker-stops",
  `
  select worker, host, version, started_at, stopped_at, drained, released, ms
  from stint.worker_stop
  order by stopped_at desc, worker desc
  limit $1`,
);

/** The latest stops, newest first. */
export async function latestStops(db: Run, limit: number): Promise<WorkerStop[]> {
  return await readMany(db, selectStops, [limit], (row) => ({
    worker: text(row, "worker"),
    host: text(row, "host"),
    version: text(row, "version"),
    startedAt: time(row, "started_at"),
    stoppedAt: time(row, "stopped_at"),
    drained: number(row, "drained"),
    released: number(row, "released"),
    ms: number(row, "ms"),
  }));
}

const deleteUnresponsiveWorkers = statement(
  "forget-unresponsive-workers",
  `
  delete from stint.worker
  where id in (
    select id from stint.worker
    where seen_at < statement_timestamp() - case when asleep then interval '1 day' else $1::bigint * interval '1 millisecond' end
    for update skip locked
  )
  returning id`,
);

/** Delete the rows of workers without a heartbeat for this long, and of asleep workers after a day. Their jobs are rescued by lease. */
export async function forgetUnresponsiveWorkers(db: Run, olderThanMs: number): Promise<string[]> {
  return await readMany(db, deleteUnresponsiveWorkers, [olderThanMs], (row) => text(row, "id"));
}

const selectWorkers = statement(
  "workers",
  `
  select
    id, host, pid, version, pools, kinds, started_at, seen_at, listening, draining, asleep, vitals,
    (extract(epoch from clock_timestamp() - seen_at) * 1000)::float8 as heartbeat_age_ms
  from stint.worker
  order by started_at, id`,
);

export async function listWorkers(db: Run): Promise<LiveWorker[]> {
  return await readMany(db, selectWorkers, [], toWorker);
}

const vitalsOrNull = orNull(json<Vitals>);

/** The same with their vitals. Ages are by the database's clock. */
export async function watchWorkers(db: Run): Promise<WatchedWorker[]> {
  return await readMany(db, selectWorkers, [], (row) =>
    Object.assign(toWorker(row), {
      vitals: vitalsOrNull(row, "vitals"),
      heartbeatAgeMs: Math.max(0, number(row, "heartbeat_age_ms")),
    }),
  );
}

function toWorker(row: Row): LiveWorker {
  return {
    id: text(row, "id"),
    host: text(row, "host"),
    pid: number(row, "pid"),
    version: text(row, "version"),
    pools: json<Record<string, number>>(row, "pools"),
    kinds: texts(row, "kinds"),
    startedAt: time(row, "started_at"),
    seenAt: time(row, "seen_at"),
    listening: flag(row, "listening"),
    draining: flag(row, "draining"),
    asleep: flag(row, "asleep"),
  };
}
