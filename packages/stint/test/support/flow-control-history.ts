/** What the flow-control checker records, and what it reads off it. All times are of the database's clock. */
import type { Fresh } from "./fresh.ts";
import { recordTokens } from "./token-history.ts";

/** Record starts and ends of handlers, tokens, and the depth of strict queues at each commit that may raise it. */
export async function recordFlow(fresh: Fresh): Promise<void> {
  await recordTokens(fresh);
  await fresh.sql(
    `create table stint.visit (
       job uuid, epoch bigint, kind text, key text, n integer, pid integer, entered timestamptz, left_at timestamptz, failed boolean,
       primary key (job, epoch)
     )`,
  );
  await fresh.sql(`create table stint.live_strict (id uuid primary key, queue text, tenant text)`);
  await fresh.sql(`create table stint.depth_history (queue text, depth integer, of_tenant integer)`);
  await fresh.sql(
    `create function stint.note_strict() returns trigger language plpgsql as $$
     begin
       if tg_op = 'INSERT' then
         insert into stint.live_strict values (new.id, new.queue, new.tenant);
       else
         delete from stint.live_strict where id = old.id;
       end if;
       return null;
     end $$`,
  );
  for (const [when, row] of [
    ["insert", "new"],
    ["delete", "old"],
  ])
    await fresh.sql(
      `create trigger note_strict_${when} after ${when} on stint.job for each row
       when (${row}.queue in ('strict', 'shed')) execute function stint.note_strict()`,
    );
  // Only a transaction that holds the gate raises the depth, and it holds the gate until it has committed. So the depth that it sees just before its
  // commit is the highest until the next one.
  await fresh.sql(
    `create function stint.note_depth() returns trigger language plpgsql as $$
     begin
       insert into stint.depth_history
       select new.queue, count(*), coalesce(max(t.jobs), 0)
       from stint.live_strict l
       left join (select tenant, count(*) as jobs from stint.live_strict where queue = new.queue group by tenant) t on t.tenant = l.tenant
       where l.queue = new.queue;
       return null;
     end $$`,
  );
  await fresh.sql(
    `create constraint trigger note_depth after insert or update on stint.admission_gate deferrable initially deferred
     for each row execute function stint.note_depth()`,
  );
}

/** One run of a handler. A killed one ended with its process. */
export type Run = {
  readonly kind: string;
  readonly key: string;
  readonly n: number;
  readonly from: number;
  readonly to: number;
  readonly failed: boolean;
  readonly killed: boolean;
};

/** Every run of a handler, by its start. Times are in milliseconds. */
export async function runs(fresh: Fresh): Promise<Run[]> {
  return await fresh.sql<Run>(
    `select
       v.kind, v.key, v.n, (extract(epoch from v.entered) * 1000)::float8 as "from",
       (extract(epoch from coalesce(v.left_at, (select min(d.at) from stint.death d where d.pid = v.pid))) * 1000)::float8 as "to",
       coalesce(v.failed, false) as failed, v.left_at is null as killed
     from stint.visit v order by v.entered, v.n`,
  );
}

/** Starts and ends in their order. At the same moment, ends come first. */
function changes(of: readonly Run[]): { at: number; key: string; change: 1 | -1 }[] {
  return of
    .flatMap(({ from, to, key }) => [
      { at: from, key, change: 1 as const },
      { at: to, key, change: -1 as const },
    ])
    .sort((one, other) => one.at - other.at || one.change - other.change);
}

/** The largest number of these runs at one moment. */
export function mostAtOnce(of: readonly Run[]): number {
  let most = 0;
  let now = 0;
  for (const { change } of changes(of)) {
    now += change;
    most = Math.max(most, now);
  }
  return most;
}

/**
 * Before each start: for how long a job could have started, because its key and all keys together had room, in milliseconds. All jobs wait from the
 * beginning.
 */
export function idleTimes(
  of: readonly Run[],
  most: { readonly key: number; readonly all: number },
): number[] {
  const idle: number[] = [];
  const keys = new Map<string, { running: number; left: number }>();
  for (const { key } of of) keys.set(key, { running: 0, left: (keys.get(key)?.left ?? 0) + 1 });
  const hasRoom = (): boolean => {
    let running = 0;
    let waits = false;
    for (const key of keys.values()) {
      running += key.running;
      waits ||= key.left > 0 && key.running < most.key;
    }
    return waits && running < most.all;
  };
  let since: number | undefined;
  for (const { at, key, change } of changes(of)) {
    if (change === 1 && since !== undefined) idle.push(at - since);
    if (change === 1) since = undefined;
    const state = keys.get(key)!;
    state.running += change;
    state.left -= change === 1 ? 1 : 0;
    since = hasRoom() ? (since ?? at) : undefined;
  }
  return idle;
}

/** By key: runs in the order of their starts. */
export function byKey(of: readonly Run[]): Run[][] {
  const keys = new Map<string, Run[]>();
  for (const run of of) {
    const same = keys.get(run.key);
    if (same === undefined) keys.set(run.key, [run]);
    else same.push(run);
  }
  return [...keys.values()];
}
