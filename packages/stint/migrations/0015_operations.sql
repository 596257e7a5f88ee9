-- Bulk operations: the filter, the reason and the progress of each.
-- oldest code: 1

create table stint.operation (
  id              uuid primary key,
  action          text not null check (action in ('cancel', 'run-now', 'replay')),
  filter          jsonb not null,
  reason          text not null,
  actor           text not null,
  -- A `running` operation without progress for a minute is shown as abandoned: its process died.
  state           text not null default 'running' check (state in ('running', 'finished', 'aborted', 'abandoned')),
  matched         integer not null,
  matched_capped  boolean not null,
  done            integer not null default 0,
  skipped         integer not null default 0,      -- jobs that had left a suitable state before their turn
  cursor          uuid,                            -- the search continues below this id
  -- The operation acts on jobs that matched at this moment: that of the preview, if there was one. Later jobs are not touched.
  as_of           timestamptz not null default clock_timestamp(),
  abort_requested boolean not null default false,
  error           text,                            -- why it was abandoned, where that is known
  created_at      timestamptz not null default clock_timestamp(),
  progressed_at   timestamptz not null default clock_timestamp(),
  ended_at        timestamptz
);
create index operation_created on stint.operation (created_at);
