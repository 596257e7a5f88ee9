import type { Row, Run } from "../db/db.ts";
import { number, readMany, text, time } from "../db/row.ts";
import { statement } from "../db/statement.ts";
import { toLike } from "../model/name-pattern.ts";
import { commonIn, fingerprintOf, readable, whyDied } from "./error-fingerprint.ts";

/** Dead jobs of one kind with the same error. */
export type DeadGroup = {
  readonly kind: string;
  /** Identifies the group in filters. */
  readonly fingerprint: string;
  /** Their error; `…` replaces the parts that differ. */
  readonly error: string;
  readonly count: number;
  /** When the latest and the first job of the group died. */
  readonly newest: Date;
  readonly oldest: Date;
  /** The id of the newest job. */
  readonly example: string;
};

export type GroupedDead = {
  readonly groups: readonly DeadGroup[];
  /** Examined jobs of the requested kind and queue. */
  readonly matched: number;
  readonly lookedAt: number;
};

// Newest first by the index on finished_at, whatever the statistics are: sorting a million dead jobs would take seconds. Equal reasons are
// grouped before their fingerprint is computed, which is the expensive part.
const groupDead = statement(
  "dead-groups",
  `
  with looked as materialized (
    select w.id, w.kind, w.queue, w.finished_at, ${whyDied} as why
    from stint.history w
    where w.state = 'dead' and w.finished_at <= stint.by_index((select 'infinity'::timestamptz))
    order by w.finished_at desc
    limit $3::integer
  ), reasons as materialized (
    select
      kind, ${commonIn("why")} as common, count(*) as count, max(finished_at) as newest, min(finished_at) as oldest,
      (array_agg(id order by finished_at desc, id desc))[1] as example
    from looked
    where ($1::text is null or kind like $1) and ($2::text is null or queue like $2)
    group by kind, why
  ), groups as (
    select
      kind, common, sum(count)::integer as count, max(newest) as newest, min(oldest) as oldest,
      (array_agg(example order by newest desc, example desc))[1] as example
    from reasons
    group by kind, common
    order by count desc, newest desc, kind, common
    limit $4::integer
  )
  select
    (select count(*) from looked)::integer as looked_at, (select coalesce(sum(count), 0) from reasons)::integer as matched,
    g.kind, g.count, g.newest, g.oldest, g.example, ${readable("g.common")} as error, ${fingerprintOf("g.kind", "g.common")} as fingerprint
  from (select) one
  left join groups g on true
  order by g.count desc, g.newest desc, g.kind, g.common`,
);

/** The newest `most` dead jobs grouped by error, largest groups first. */
export async function deadGroups(
  db: Run,
  input: { kind: string | null; queue: string | null; most: number; groups: number },
): Promise<GroupedDead> {
  const kind = input.kind === null ? null : toLike(input.kind);
  const queue = input.queue === null ? null : toLike(input.queue);
  const rows = await readMany(db, groupDead, [kind, queue, input.most, input.groups], (row) => ({
    // The totals come with every group, or alone in one row.
    group: row["kind"] === null ? null : toGroup(row),
    matched: number(row, "matched"),
    lookedAt: number(row, "looked_at"),
  }));
  return {
    groups: rows.flatMap(({ group }) => group ?? []),
    matched: rows[0]?.matched ?? 0,
    lookedAt: rows[0]?.lookedAt ?? 0,
  };
}

function toGroup(row: Row): DeadGroup {
  return {
    kind: text(row, "kind"),
    fingerprint: text(row, "fingerprint"),
    error: text(row, "error"),
    count: number(row, "count"),
    newest: time(row, "newest"),
    oldest: time(row, "oldest"),
    example: text(row, "example"),
  };
}
