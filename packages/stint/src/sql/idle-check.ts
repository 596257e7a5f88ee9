import type { Run } from "../db/db.ts";
import { flag, json, number, numberOrNull, readOne, text, texts } from "../db/row.ts";
import { statement, type Statement } from "../db/statement.ts";
import { rangeValues, walkReady, type QueueRange } from "./ready-queues.ts";

/** What an upkeep service adds to the idle check. */
export type IdleCheckPart = {
  /**
   * An expression: milliseconds until the service has work, negative when late; null when it has none. It may use `$2`, the kinds of the worker,
   * and `$3`, the time of the last check. It must read the head of an index only, because every idle worker sends it.
   */
  readonly sql: string;
  /** Whether a sleeping worker must wake up for it. */
  readonly endsSleep: boolean;
};

export type IdleCheck = {
  /** Whether a job is ready in the queues of the input. */
  readonly ready: boolean;
  /** Queues of large pools with a ready job of its kinds, and whether there are more; undefined if the worker has no such pool. */
  readonly named?: { readonly queues: readonly string[]; readonly more: boolean };
  /** Whether a job of its queues and kinds waits in quarantine, to be run alone. */
  readonly suspect: boolean;
  /** The value of each part, by its name. */
  readonly dueInMs: Readonly<Record<string, number | null>>;
  /** The time of the check by the database's clock. */
  readonly at: string;
  /** The same in milliseconds. */
  readonly serverMs: number;
};

export type IdleCheckInput = {
  /** Queues of the pools that are checked as a whole. */
  readonly queues: readonly string[];
  readonly kinds: readonly string[];
  /** The time of the last check. Jobs due, and leases expired, more than some seconds before it are left out: that check has seen them. */
  readonly since: string;
  /** Where the queues of large pools are, and which of the found queues this worker serves. */
  readonly search?: { readonly ranges: readonly QueueRange[]; readonly serves: (queue: string) => boolean };
};

/** How many queues of large pools one check names. */
const mostNamed = 100;

const suspected = `
      from stint.job p
      where p.state = 'parked'
        and p.park_reason = stint.by_index('quarantine'::text)
        and p.kind = any ($2::text[])`;

/** For most workers. */
const suspect = `exists (
      select ${suspected}
        and p.queue = any ($1::text[])
      order by p.park_reason, p.run_at
      limit 1
    ) as suspect`;

/** For a worker with large pools: it names queues, so that the cost does not depend on how many there are. */
const suspectAndNamed = `array(
      select p.queue::text ${suspected}
        and cardinality($1::text[]) + cardinality($4::text[]) > 0
      order by p.park_reason, p.run_at
      limit ${mostNamed}
    ) as suspected,
    (
      select jsonb_build_object(
        'queues', coalesce(jsonb_agg(named.queue) filter (where named.served), '[]'), 'looked_at', count(*))
      from (${walkReady({ first: "$4", until: "$5", kinds: "$2", limit: mostNamed })}
      ) named
    ) as named`;

const checkText = (own: string, parts: readonly (readonly [string, IdleCheckPart])[]): string => `
  select
    exists (
      select
      from unnest($1::text[]) as own (queue)
      cross join lateral (
        select
        from stint.job r
        where r.state = 'ready'
          and r.queue = stint.by_index(own.queue)
          and r.kind = any ($2::text[])
        order by r.priority, r.run_at, r.id
        limit 1
      ) head
    ) as ready,
    ${own},
    ${parts.map(([name, { sql }]) => `(${sql})::float8 as "due:${name}",\n    `).join("")}clock_timestamp()::text as at,
    extract(epoch from clock_timestamp())::float8 * 1000 as server_ms`;

/**
 * Makes the check of an idle worker: one statement that writes nothing, with a part for each service, instead of one statement per service.
 */
export function makeIdleCheck(
  parts: Readonly<Record<string, IdleCheckPart>>,
): (db: Run, input: IdleCheckInput) => Promise<IdleCheck> {
  const entries = Object.entries(parts);
  const check = statement("idle-check", checkText(suspect, entries));
  const checkPools = statement("idle-check-pools", checkText(suspectAndNamed, entries));
  return async (db, { queues, kinds, since, search }) => {
    const values = [queues, kinds, since];
    const [sent, all]: [Statement, unknown[]] =
      search === undefined ? [check, values] : [checkPools, [...values, ...rangeValues(search.ranges)]];
    return await readOne(db, sent, all, (row) => {
      const dueInMs = Object.fromEntries(entries.map(([name]) => [name, numberOrNull(row, `due:${name}`)]));
      const shared = {
        dueInMs,
        ready: flag(row, "ready"),
        at: text(row, "at"),
        serverMs: number(row, "server_ms"),
      };
      if (search === undefined) return { ...shared, suspect: flag(row, "suspect") };
      const named = json<{ queues: string[]; looked_at: number }>(row, "named");
      return {
        ...shared,
        suspect: texts(row, "suspected").some(search.serves),
        named: { queues: named.queues.filter(search.serves), more: named.looked_at === mostNamed },
      };
    });
  };
}
