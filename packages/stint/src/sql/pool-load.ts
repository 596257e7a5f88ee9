import type { Run } from "../db/db.ts";
import { columns, json, number, readMany, readOne, text, textOrNull, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import type { Vitals } from "./series.ts";
import type { ScaledPool } from "./workers-needed.ts";
import { isResponsive } from "./workers.ts";

/** The load of one kind in one queue of a pool. */
export type PoolLoadRow = {
  /** The place of the pool in the given list, from 1. */
  readonly pool: number;
  readonly queue: string;
  readonly kind: string;
  readonly ready: number;
  readonly running: number;
  /** Jobs that wait at a limit, or for tokens of a dependency. */
  readonly waiting: number;
  readonly arrivedPerS: number;
  readonly ranPerS: number;
  readonly takesS: number;
  readonly targetS: number;
  /** Slots for all its work, and those of them that pauses, limits and tokens let run. */
  readonly wanted: number;
  readonly needed: number;
  readonly paused: string | null;
  readonly fullLimit: string | null;
};

const selectLoad = statement(
  "pool-load",
  `
  select
    l.pool, l.queue, l.kind, l.ready, l.running, l.waiting, l.arrived_per_s as "arrivedPerS", l.ran_per_s as "ranPerS",
    l.takes_s as "takesS", l.target_s as "targetS", l.wanted, l.needed, l.paused, l.full_limit as "fullLimit"
  from stint.pool_load($1::text::jsonb, $2::float8 * interval '1 millisecond') l`,
);

const toLoad = columns<PoolLoadRow>({
  pool: number,
  queue: text,
  kind: text,
  ready: number,
  running: number,
  waiting: number,
  arrivedPerS: number,
  ranPerS: number,
  takesS: number,
  targetS: number,
  wanted: number,
  needed: number,
  paused: textOrNull,
  fullLimit: textOrNull,
});

export async function poolLoad(
  db: Run,
  pools: readonly ScaledPool[],
  targetMs: number | undefined,
): Promise<PoolLoadRow[]> {
  const given = JSON.stringify(pools.map(({ queues, slots }) => ({ queues, slots })));
  return await readMany(db, selectLoad, [given, targetMs ?? null], toLoad);
}

/** The live workers, and what the server shows of its own limits. */
export type Fleet = {
  readonly at: Date;
  readonly workers: readonly {
    readonly pools: Readonly<Record<string, number>>;
    readonly draining: boolean;
    readonly vitals: Vitals | null;
  }[];
  readonly connections: number;
  readonly maxConnections: number;
  /** Sessions with a lock in this schema that have waited over a second for another lock. */
  readonly lockWaits: number;
};

const selectFleet = statement(
  "fleet",
  `
  select
    clock_timestamp() as at,
    (
      select coalesce(jsonb_agg(jsonb_build_object('pools', w.pools, 'draining', w.draining, 'vitals', w.vitals)), '[]')
      from stint.worker w
      where ${isResponsive}
    ) as workers,
    (select sum(d.numbackends) from pg_stat_database d)::integer as connections,
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer as "maxConnections",
    (
      select count(distinct l.pid)
      from pg_locks l
      where not l.granted and l.waitstart < clock_timestamp() - interval '1 second' and exists (
        select
        from pg_locks held
        join pg_class c on c.oid = held.relation
        where held.pid = l.pid and held.granted and held.locktype = 'relation'
          and held.database = (select d.oid from pg_database d where d.datname = current_database())
          and c.relnamespace = (select own.relnamespace from pg_class own where own.oid = 'stint.job'::regclass)
      )
    )::integer as "lockWaits"`,
);

const toFleet = columns<Fleet>({
  at: time,
  workers: json<Fleet["workers"]>,
  connections: number,
  maxConnections: number,
  lockWaits: number,
});

export async function fleet(db: Run): Promise<Fleet> {
  return await readOne(db, selectFleet, [], toFleet);
}
