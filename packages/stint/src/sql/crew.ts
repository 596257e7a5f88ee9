import type { Row, Run } from "../db/db.ts";
import { statement } from "../db/statement.ts";
import { unservedKinds } from "./kinds.ts";
import { usualRuns, type Runs } from "./series.ts";
import { running, toRunning, type RunningJob } from "./slow.ts";

/** Who works, on what, and what nobody works on: in one statement, so that it is of one moment. */
export type Crew = {
  readonly workers: readonly {
    readonly pools: Readonly<Record<string, number>>;
    readonly draining: boolean;
  }[];
  readonly running: readonly RunningJob[];
  readonly usual: Runs;
  readonly unserved: readonly {
    readonly kind: string;
    readonly queue: string;
    readonly oldestReadyMs: number;
  }[];
};

const selectCrew = statement(
  "crew",
  `
  select
    (
      select coalesce(jsonb_agg(jsonb_build_object('pools', w.pools, 'draining', w.draining)), '[]')
      from stint.worker w
      where w.asleep or w.seen_at > statement_timestamp() - interval '2 minutes'
    ) as workers,
    (select coalesce(jsonb_agg(to_jsonb(r)), '[]') from (${running}) r) as running,
    (select coalesce(jsonb_object_agg(u.kind, u.run), '{}') from (${usualRuns("")}) u) as usual,
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'kind', u.kind, 'queue', u.queue, 'oldestReadyMs', extract(epoch from clock_timestamp() - u.oldest) * 1000)), '[]')
      from (${unservedKinds("$1")}) u
    ) as unserved`,
);

export async function crew(db: Run, waitedMs: number): Promise<Crew> {
  const [row = {}] = await db.run(selectCrew, [waitedMs]);
  return {
    workers: row["workers"] as Crew["workers"],
    running: (row["running"] as Row[]).map(toRunning),
    usual: new Map(Object.entries(row["usual"] as Record<string, number[]>)),
    unserved: row["unserved"] as Crew["unserved"],
  };
}
