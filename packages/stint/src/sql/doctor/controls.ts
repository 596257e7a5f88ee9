import type { Run } from "../../db/db.ts";
import { json, readOne } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";
import type { PauseScope } from "../../model/pause.ts";
import { pauseInForce } from "../pauses.ts";

export type PauseFacts = {
  readonly scope: PauseScope;
  readonly name: string;
  readonly reason: string;
  readonly pausedBy: string;
  readonly pausedMs: number;
  /** How long until it ends by itself; null: when it is resumed. */
  readonly leftMs: number | null;
};

/** A queue that is full by its admission settings, and for how long. */
export type FullQueue = {
  readonly queue: string;
  readonly policy: string;
  readonly depth: number;
  readonly ageMs: number;
  readonly fullMs: number;
};

export type ControlFacts = { readonly pauses: readonly PauseFacts[]; readonly full: readonly FullQueue[] };

const selectControls = statement(
  "doctor-controls",
  `
  select
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'scope', p.scope, 'name', p.name, 'reason', p.reason, 'pausedBy', p.paused_by,
        'pausedMs', extract(epoch from clock_timestamp() - p.paused_at) * 1000,
        'leftMs', extract(epoch from p.until - clock_timestamp()) * 1000) order by p.paused_at), '[]')
      from stint.pause p
      where ${pauseInForce}
    ) as pauses,
    (
      select coalesce(jsonb_agg(jsonb_build_object(
        'queue', s.queue, 'policy', stint.admission_of(s.queue) ->> 'policy', 'depth', s.depth, 'ageMs', s.age_ms,
        'fullMs', extract(epoch from clock_timestamp() - s.full_since) * 1000) order by s.full_since), '[]')
      from stint.admission_sample s
      where s.full_since is not null and stint.admission_of(s.queue) is not null
    ) as full_queues`,
);

export async function controlFacts(db: Run): Promise<ControlFacts> {
  return await readOne(db, selectControls, [], (row) => ({
    pauses: json<PauseFacts[]>(row, "pauses"),
    full: json<FullQueue[]>(row, "full_queues"),
  }));
}
