-- Bulk operations: what each one acts on, why, and how far it is.
-- oldest code: 1

create table stint.operation (
  id              uuid primary key,
  action          text not null check (action in ('cancel', 'run-now', 'replay')),
  filter          jsonb not null,
  reason          text not null,
  actor           text not null,
  -- What is `running` and has not progressed for a minute is shown as abandoned: its process died.
  state           text not null default 'running' check (state in ('running', 'finished', 'aborted', 'abandoned')),
  matched         integer not null,
  matched_capped  boolean not null,
  done            integer not null default 0,
  skipped         integer not null default 0,      -- no longer in a state for it when their turn came
  cursor          uuid,                            -- the walk goes on below this id
  -- What matched at this moment is acted on: that of the preview, where there was one. Jobs that came later are left alone.
  as_of           timestamptz not null default clock_timestamp(),
  abort_requested boolean not null default false,
  error           text,                            -- why it was abandoned, where that is known
  created_at      timestamptz not null default clock_timestamp(),
  progressed_at   timestamptz not null default clock_timestamp(),
  ended_at        timestamptz
);
create index operation_created on stint.operation (created_at);
