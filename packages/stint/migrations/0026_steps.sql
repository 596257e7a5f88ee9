-- What a handler remembers within its job: steps, sleeps, awaited signals, checkpoints, progress and log lines.
-- oldest code: 1

-- One remembered part of a handler. Only the attempt that owns the job writes here (fenced). The rows stay with the job, also in the history,
-- and are pruned after it: a replayed job continues after its last finished step.
create table stint.step (
  job_id     uuid not null,
  seq        integer not null,                     -- the place of the call in its handler, from 1
  name       text collate "C" not null,
  type       text not null,
  is_pending boolean not null default false,       -- a sleep or a wait that has not ended
  until      timestamptz,                          -- when a sleep, or the wait for a signal, ends by itself
  awaits     text,                                 -- the name of the awaited signal
  signal_id  uuid,                                 -- the received signal; null after a timeout
  result     jsonb,
  took_ms    bigint,
  epoch      bigint not null,                      -- of the attempt that wrote it
  at         timestamptz not null default clock_timestamp(),
  primary key (job_id, name),
  constraint step_type_is_known check (type in ('step', 'sleep', 'signal')),
  constraint step_names_have_1_to_256_characters check (length(name) between 1 and 256),
  constraint step_signals_are_named check ((type = 'signal') = (awaits is not null))
) with (
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_insert_scale_factor = 0.1
);

-- What a running handler reports, and the checkpoint it continues from. One row per job, replaced in place.
create table stint.progress (
  job_id        uuid primary key,
  fraction      real,
  note          text,
  checkpoint    jsonb,
  checkpoint_at timestamptz,
  lines         jsonb,                             -- the latest log lines: {at, epoch, text}
  line_count    bigint not null default 0,         -- of all lines ever logged
  at            timestamptz not null,              -- of the last change
  constraint progress_is_a_fraction check (fraction between 0 and 1)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
