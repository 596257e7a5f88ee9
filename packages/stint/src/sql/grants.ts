import { quoteIdentifier } from "../db/quote.ts";
import { forSchema } from "../db/statement.ts";

/** The roles with separate grants. */
export const grantRoles = ["owner", "worker", "enqueue", "read"] as const;
export type GrantRole = (typeof grantRoles)[number];

const what: Record<GrantRole, string> = {
  owner: `-- Owns the schema and migrates it. No other role needs to create anything.
grant create on database :database to :role;
`,
  worker: `-- Claims, runs and settles jobs, and operates on them.
grant usage on schema stint to :role;
grant select, insert, update, delete
  on stint.job, stint.history, stint.history_done_rest, stint.worker, stint.kind, stint.queue, stint.dedupe_window, stint.flow, stint.flow_job, stint.flow_edge,
    stint.step, stint.progress, stint.signal, stint.schedule, stint.schedule_slot, stint.next_run, stint.pause, stint.paused_job
  to :role;
grant select, insert, delete on stint.audit, stint.worker_stop to :role;
grant select, insert, update, delete on stint.operation to :role;
grant insert on stint.tally_delta to :role;
grant select, delete on stint.series, stint.tenant_usage, stint.admitted to :role;
grant select
  on stint.jobs, stint.depth, stint.arrivals, stint.counted, stint.tally, stint.tally_delta, stint.tally_fold, stint.tally_unfolded,
    stint.enqueues, stint.latest, stint.latest_missed, stint.fair_backlog, stint.limit, stint.limit_place, stint.limit_missed, stint.limit_share, stint.dependency, stint.dependency_wait, stint.kind_dependency, stint.migration
  to :role;
grant execute on all functions in schema stint to :role;
`,
  enqueue: `-- Adds jobs, sends signals and can do nothing else: it has no right on any table of jobs.
grant usage on schema stint to :role;
grant select on stint.migration to :role;
grant execute on function
  stint.enqueue(text, jsonb, jsonb), stint.enqueue_one(text, jsonb, jsonb), stint.enqueue_many(jsonb),
  stint.enqueue_rows(jsonb, boolean, timestamptz, timestamptz),
  stint.enqueue_new(uuid[], text[], text[], jsonb, jsonb, boolean, timestamptz), stint.wake_channel(), stint.ready_hint(text, bigint),
  stint.signal(text, text, jsonb, jsonb), stint.send_signal(uuid, text, text, text, jsonb, text, boolean, timestamptz),
  stint.admission(text, text)
  to :role;
`,
  read: `-- Looks at everything and changes nothing.
grant usage on schema stint to :role;
grant select on stint.job, stint.history, stint.jobs, stint.worker, stint.worker_stop, stint.kind, stint.queue, stint.dedupe_window, stint.flow, stint.flow_job, stint.flow_edge, stint.step, stint.progress, stint.signal, stint.audit, stint.migration,
  stint.schedule, stint.schedule_slot, stint.next_run, stint.pause, stint.paused_job, stint.admission_sample, stint.admission_tended, stint.admission_gate, stint.admission_check, stint.admitted, stint.latest, stint.latest_missed, stint.enqueues, stint.enqueue_count,
  stint.limit, stint.limit_place, stint.limit_missed, stint.limit_share, stint.dependency, stint.dependency_wait, stint.kind_dependency, stint.fair_backlog,
  stint.tally, stint.tally_delta, stint.tally_fold, stint.tally_unfolded, stint.depth, stint.arrivals, stint.counted, stint.series, stint.tenant_usage, stint.operation
  to :role;
grant execute on function
  stint.by_index(anyelement), stint.step_of(timestamptz, integer), stint.workers_needed(jsonb, interval),
  stint.pool_load(jsonb, interval),
  stint.served_as(jsonb, text), stint.max_of(text), stint.rule_of(text), stint.is_ordered(text), stint.admission_of(text),
  stint.tokens_of(stint.dependency, timestamptz), stint.credit_of(stint.dependency, timestamptz), stint.quota_left(stint.dependency, timestamptz),
  stint.quota_spent(stint.dependency, timestamptz), stint.quota_start(stint.dependency, timestamptz), stint.quota_end(stint.dependency, timestamptz),
  stint.is_paused_dependency(text), stint.dependency_delay(text), stint.token_supply(stint.dependency, float8),
  stint.newest_between(uuid, uuid, boolean, boolean, boolean, integer)
  to :role;
`,
};

/**
 * The GRANT script for one role, to be reviewed and run by the schema's owner. The default schema is `stint`, as in every
 * statement here.
 */
export function grantSql(
  role: GrantRole,
  names: { role: string; database: string; schema?: string },
): string {
  const text = names.schema === undefined ? what[role] : forSchema(what[role], names.schema);
  // One pass, as the last step: a role name that looks like a placeholder or like the schema stays unchanged.
  return text.replaceAll(/:(role|database)\b/g, (_, name: "role" | "database") =>
    quoteIdentifier(names[name]),
  );
}
