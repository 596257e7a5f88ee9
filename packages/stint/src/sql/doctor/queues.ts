import type { Run } from "../../db/db.ts";
import { columns, flag, readMany, text, textOrNull } from "../../db/row.ts";
import { statement } from "../../db/statement.ts";

export type QueueFacts = {
  /** A queue that jobs, kinds or workers use; or a name or pattern of `stint.queue`. */
  name: string;
  /** Where the settings of `name` come from: `code` or `live`. Null: `name` is a queue in use. */
  declared: string | null;
  /** Whether the settings apply to a queue in use. */
  matches: boolean;
};

// A pool may serve a pattern: settings of any name that it matches may be needed with the next job.
const selectQueues = statement(
  "doctor-queues",
  `
  with used as materialized (
    select queue from stint.depth
    union
    select queue from stint.kind
    union
    select p.queue from stint.worker w cross join jsonb_object_keys(w.pools) as p (queue)
  )
  select
    q.name,
    case when num_nonnulls(q.declared_target_age_ms, q.declared_admission, q.declared_fair, q.declared_aging_ms) = 0 then 'live' else 'code' end as declared,
    exists (
      select from used u
      where stint.served_as(jsonb_build_object(q.name, 0), u.queue) is not null
        or stint.served_as(jsonb_build_object(u.queue, 0), q.name) is not null
    ) as matches
  from stint.queue q
  union all
  select u.queue, null, true from used u
  order by declared nulls last, name
  limit 10000`,
);

const toQueueFacts = columns<QueueFacts>({ name: text, declared: textOrNull, matches: flag });

export async function queueFacts(db: Run): Promise<QueueFacts[]> {
  return await readMany(db, selectQueues, [], toQueueFacts);
}
