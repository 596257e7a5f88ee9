-- The foundation: live jobs, finished jobs, kinds, queue settings, workers, the audit.
-- Every name is qualified with `stint.`; installing under another schema replaces that qualifier.
-- oldest code: 1

create type stint.job_state as enum
  ('scheduled', 'ready', 'running', 'retrying', 'parked', 'succeeded', 'dead', 'cancelled');

-- At most 32 texts of 1 to 128 characters, in one dimension.
create function stint.are_tags(tags text[]) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select cardinality(tags) <= 32 and coalesce(array_ndims(tags), 1) = 1
    and not exists (select from unnest(tags) t (tag) where tag is null or length(tag) not between 1 and 128)
$$;

-- Whether the limit keys of a job are few, and texts such as `key:account=42`.
create function stint.are_limits(p_limits text[]) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
  select cardinality(p_limits) <= 17 and coalesce(array_ndims(p_limits), 1) = 1
    and not exists (
      select from unnest(p_limits) k (key)
      where key is null or length(key) > 768 or key !~ '^(queue|kind|tenant|key|dependency|order|pass):[A-Za-z0-9*][A-Za-z0-9._:/-]{0,127}(#[0-9]{1,2})?(=.|$)')
$$;

-- What a caller may write into a job. Reading relies on these rules: one row outside them would fail every claim that meets it. An enqueue-only
-- role must not be able to write such a row, whichever function it calls. The names of the rules are the messages that a caller sees.
--
-- The rules are those of domains: a domain is checked when a value is written, and its rules are parsed once for a session. Postgres parses the
-- constraints of a table in every statement that writes to it, and checks them at every claim: as constraints, these rules took more than half of
-- the time of an enqueue (docs/decisions/0044-rules-of-columns.md).
create domain stint.job_name as text
  constraint job_names_have_1_to_128_characters check (length(value) between 1 and 128);
create domain stint.job_key as text
  constraint job_keys_have_1_to_512_characters check (length(value) between 1 and 512);
create domain stint.job_time as timestamptz
  constraint job_times_are_in_range check (value >= '1970-01-01 00:00:00+00' and value < '10000-01-01 00:00:00+00');
create domain stint.job_lease_ms as bigint
  constraint job_times_are_in_range check (value between 1000 and 86400000);
create domain stint.job_timeout_ms as bigint
  constraint job_times_are_in_range check (value between 1 and 3153600000000);
create domain stint.job_max_attempts as integer
  constraint job_limits_are_in_range check (value between 1 and 1000);
create domain stint.job_max_crashes as integer
  constraint job_limits_are_in_range check (value between 1 and 100);
create domain stint.job_tags as text[]
  constraint job_tags_are_at_most_32_texts check (value is null or stint.are_tags(value));
create domain stint.job_meta as jsonb
  constraint job_meta_is_an_object check (value is null or jsonb_typeof(value) = 'object');
create domain stint.job_dedupe_until as text
  constraint job_dedupe_until_is_an_end check (value in ('started', 'finished'));
create domain stint.limit_keys as text[]
  constraint limits_are_at_most_17_keys check (value is null or value = '{}' or stint.are_limits(value));

-- Live jobs only. A job that ends leaves for `history`, so the cost of claiming does not grow with
-- the number of finished jobs.
create table stint.job (
  -- A claim writes a second entry for each job. Without room for it, the page splits (docs/decisions/0028-cost-of-a-drained-job.md).
  id               uuid primary key with (fillfactor = 50),
  kind             stint.job_name not null,
  queue            stint.job_name collate "C" not null,      -- in byte order, so that a prefix is a range of the index
  state            stint.job_state not null,
  priority         smallint not null default 0,
  run_at           stint.job_time not null,
  created_at       timestamptz not null,

  -- Six independent counters.
  attempts         integer not null default 0,     -- counted at claim; subtracted again when the attempt is not spent
  crashes          integer not null default 0,     -- its worker died while running it
  interruptions    integer not null default 0,     -- drained, snoozed, parked
  faults           integer not null default 0,     -- the database failed the transaction that its handler was given
  epoch            bigint  not null default 0,     -- one more at every claim, never reset: the order of the fence
  run              integer not null default 1,     -- one more at every replay

  -- The lease. `lease_id` is set exactly while the job is running, so matching it implies `running`
  -- without naming the state; a settle that named it would tempt the planner onto the lease index.
  lease_id         uuid,
  lease_until      timestamptz,
  worker           text,
  claimed_at       timestamptz,
  cancel_requested boolean not null default false,

  -- Set only if this job was enqueued with its own value. Otherwise the settings of its kind and its worker apply when it runs.
  max_attempts     stint.job_max_attempts,
  max_crashes      stint.job_max_crashes,
  timeout_ms       stint.job_timeout_ms,
  lease_ms         stint.job_lease_ms,

  expires_at       stint.job_time,                    -- not run after this time, but cancelled; null: at any time
  key              stint.job_key,
  tenant           stint.job_key,
  tags             stint.job_tags,
  dedupe_key       stint.job_key,
  dedupe_until     stint.job_dedupe_until,
  park_reason      text,                           -- set while it is parked, and while a quarantined job runs alone
  park_until       timestamptz,                    -- a parked job becomes ready at this time, which is also its run_at
  reason           text,                           -- free text of operators and handlers
  meta             stint.job_meta,
  payload          jsonb not null,
  log              jsonb,                          -- ended attempts other than success, first and latest kept
  has_follow_ups   boolean,                        -- true: a part of a flow, or has or awaits a place of a limit; null: a plain job, as nearly every job
  limits           stint.limit_keys,               -- the limit keys from its payload, an ordered key among them; empty: its kind has limits
  fair_tenant      text collate "C",               -- its tenant, '' without one, if its queue shares its workers among tenants; else null
  -- In one constraint, because each costs every statement that writes a job. The states after parked are those of ended jobs.
  constraint job_is_live check (state <= 'parked' and (state = 'running') = (lease_id is not null))
) with (
  -- A queue's table is rewritten many times a day; the defaults (20 % of the table) come far too late.
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 50000,
  autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 20000,
  autovacuum_vacuum_cost_delay = 0,
  -- Truncation takes an exclusive lock on the busiest table; see also make_room().
  vacuum_truncate = false
);

-- The leading columns of the indexes below have no statistics. A queue's table fills and empties within minutes, and the
-- statistics of one moment mislead the planner. If all jobs were in one queue and ordered by time, ANALYZE finds a high
-- correlation, and the planner then sorts a whole queue instead of an index scan that stops early.
alter table stint.job
  alter column queue set statistics 0,
  alter column run_at set statistics 0,
  alter column lease_until set statistics 0,
  alter column park_reason set statistics 0,
  alter column fair_tenant set statistics 0;

-- In claim order, with ready jobs only: a claim never sorts, and never reads a job that cannot run.
create index job_ready on stint.job (queue, priority, run_at, id) where state = 'ready';
-- For queues that share their workers among tenants. Jobs of other queues have no entry here. Statements ask for the same range of one state: the
-- planner does not see that job_ready has these jobs, too. It would read all ready jobs of the queue there, for each tenant.
create index job_fair on stint.job (queue, fair_tenant, priority, run_at, id) where state >= 'ready' and state <= 'ready' and fair_tenant is not null;
create index job_due on stint.job (run_at) where state in ('scheduled', 'retrying') or park_until is not null;
create index job_lease on stint.job (lease_until) where state = 'running';
create index job_parked on stint.job (park_reason, run_at) where state = 'parked';
create index job_expires on stint.job (expires_at) where expires_at is not null;
create index job_key on stint.job (key) where key is not null;
-- This index alone decides uniqueness.
create unique index job_dedupe on stint.job (kind, dedupe_key) where dedupe_key is not null;

-- Keys deduplicated for a length of time outlive their job, so they have their own table.
create table stint.dedupe_window (
  kind       text not null,
  key        text not null,
  job_id     uuid not null,
  expires_at timestamptz not null,
  primary key (kind, key)
);
create index dedupe_window_expires on stint.dedupe_window (expires_at);

-- The newest job of a dedupe key whose holder is running: it is parked until that one ends (lift_latest). The primary key allows one for each key.
create table stint.latest (
  kind         text not null,
  key          text not null,
  job_id       uuid not null,                      -- the parked job
  behind       uuid not null,                      -- the job that it waits for
  dedupe_until text not null,                      -- with which it takes the key
  xid          xid8 not null default pg_current_xact_id(),
  checked      boolean not null default false,     -- false until the transaction that wrote it commits, see check_latest
  primary key (kind, key)
);
create index latest_behind on stint.latest (behind);
create index latest_unchecked on stint.latest (xid) where not checked;

-- Jobs that ended while a transaction was replacing the job behind them. Upkeep lifts what is left behind if that transaction rolls back.
create table stint.latest_missed (
  behind uuid primary key
);

-- Finished jobs. Dead jobs have their own partition, because operators replay them;
-- the others are partitioned by day, and whole days are dropped.
create table stint.history (
  id            uuid not null,
  kind          text not null,
  queue         text not null,
  state         stint.job_state not null,
  priority      smallint not null,
  run_at        timestamptz not null,
  created_at    timestamptz not null,
  finished_at   timestamptz not null,
  attempts      integer not null,
  crashes       integer not null,
  interruptions integer not null,
  faults        integer not null default 0,
  epoch         bigint not null,
  run           integer not null,
  lease_id      uuid,
  worker        text,
  claimed_at    timestamptz,
  max_attempts  integer,
  max_crashes   integer,
  timeout_ms    bigint,
  lease_ms      bigint,
  expires_at    timestamptz,
  key           text,
  tenant        text,
  tags          text[],
  reason        text,
  meta          jsonb,
  payload       jsonb not null,
  result        jsonb,
  log           jsonb,
  limits        stint.limit_keys
) partition by list (state);

create table stint.history_dead partition of stint.history for values in ('dead');
create table stint.history_done partition of stint.history for values in ('succeeded', 'cancelled')
  partition by range (finished_at);
-- Takes rows that no day's partition takes, so that a missing partition cannot fail the end of a job.
create table stint.history_done_rest partition of stint.history_done default;
-- They have no key. Under a publication for all tables, replays and pruning could not delete from them otherwise.
alter table stint.history_dead replica identity full;
alter table stint.history_done_rest replica identity full;

create index history_id on stint.history (id);
create index history_key on stint.history (key) where key is not null;
create index history_dead_finished on stint.history_dead (finished_at);
create index history_dead_queue on stint.history_dead (queue, finished_at);   -- the oldest dead job of each queue

-- Kind settings registered by workers. SQL callers need a kind's queue; a worker that rescues a job of a kind it does not serve needs to know how
-- many crashes the kind allows.
create table stint.kind (
  name         text primary key,
  queue        text not null,
  priority     smallint,
  max_crashes  integer,
  lease_ms     bigint,                             -- of its attempts, unless the job has its own
  timeout_ms   bigint,
  stall_after_ms bigint,                           -- a running job that reports nothing for longer is stalled; null: that is not watched
  signals      text[],                             -- the signals that its jobs receive; null: any
  seen_at      timestamptz not null default clock_timestamp()
);

-- Settings of queues, by name or by pattern (`tenant-*`; `*` is for all queues). The exact name wins, then the longest pattern. A worker
-- writes the declarations of its code when it starts; set_queue() changes a setting live. A live change stays until code declares another
-- value, which is why the declared value has its own column.
create table stint.queue (
  name                   text collate "C" primary key,
  target_age_ms          bigint,                   -- the oldest ready job should be younger than this; null: the next pattern decides
  declared_target_age_ms bigint,                   -- the value that code declared last
  admission              jsonb,                    -- as checked_admission() returns it; null: the next pattern decides, else any job is admitted
  declared_admission     jsonb,
  fair                   jsonb,                    -- as checked_fair() returns it; null: the next pattern decides, else jobs run by priority and time
  declared_fair          jsonb,
  aging_ms               bigint,                   -- a job that has waited for longer gets a share of the claims; null: the next pattern decides
  declared_aging_ms      bigint,
  updated_at             timestamptz not null default clock_timestamp(),
  updated_by             text not null,
  constraint queue_name_is_a_name_or_pattern check (name ~ '^[A-Za-z0-9*][A-Za-z0-9._:/*-]{0,127}$' and strpos(name, '**') = 0),
  constraint queue_target_age_is_in_range check (
    target_age_ms between 1 and 3153600000000 and declared_target_age_ms between 1 and 3153600000000),
  constraint queue_aging_is_in_range check (
    aging_ms between 0 and 3153600000000 and declared_aging_ms between 0 and 3153600000000)
);
-- Every enqueue asks whether there are any such settings. The indexes are empty until there are, however many rows have a target age.
create index queue_rule on stint.queue (name) where admission is not null or fair is not null or aging_ms is not null;
create index queue_rule_pattern on stint.queue (name)
  where (admission is not null or fair is not null or aging_ms is not null) and strpos(name, '*') > 0;

create table stint.worker (
  id         text primary key,
  host       text not null,
  pid        integer not null,
  version    text not null,
  pools      jsonb not null,
  kinds      text[] not null,
  started_at timestamptz not null default clock_timestamp(),
  seen_at    timestamptz not null default clock_timestamp(),
  listening  boolean not null default false,       -- false while saturated or without a listener: no wake is sent for it
  draining   boolean not null default false,
  asleep     boolean not null default false,       -- in sleep mode: no heartbeats, but a wake reaches it
  vitals     jsonb                                 -- as it last reported: busy, slots, waiting, lagMs, rssBytes
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Actions of operators on jobs, queue settings, schedules, limits and other subjects, with their reasons. Written in the same statement as the change.
create table stint.audit (
  id     uuid primary key,
  at     timestamptz not null default clock_timestamp(),
  actor  text not null,
  action text not null,
  reason text,
  job_id uuid,
  queue  text,                                     -- a name or a pattern of stint.queue
  schedule text,
  limit_name text,
  subject text,                                    -- anything else: what it is and its name, such as kind:charge-card
  change jsonb,                                    -- of a setting: its name, the value before and after
  constraint audit_is_about_one_thing check (num_nonnulls(job_id, queue, schedule, limit_name, subject) = 1)
);
create index audit_job on stint.audit (job_id, at, id);
create index audit_queue on stint.audit (queue, at, id) where queue is not null;
create index audit_schedule on stint.audit (schedule, at, id) where schedule is not null;
create index audit_limit on stint.audit (limit_name, at, id) where limit_name is not null;
create index audit_subject on stint.audit (subject, at, id) where subject is not null;
-- The newest changes of queues, limits and pauses, among any number of entries about jobs.
create index audit_controls on stint.audit (at, id) where queue is not null or limit_name is not null or subject is not null;

-- ---- For people ------------------------------------------------------------------------------------

-- Every job, live or finished, in one shape.
-- The columns of live jobs are cast to the types of the history: with two types for one column, Postgres applies a condition on it only after it has read
-- both tables.
create view stint.jobs as
  select
    id, kind::text, queue::text, state, priority, run_at::timestamptz, created_at, null::timestamptz as finished_at,
    attempts, crashes, interruptions, faults, epoch, run, lease_id, lease_until, worker, claimed_at, cancel_requested,
    max_attempts::integer, max_crashes::integer, timeout_ms::bigint, lease_ms::bigint, expires_at::timestamptz, key::text, tenant::text,
    tags::text[], park_reason, park_until, reason, meta::jsonb, payload, null::jsonb as result, log
  from stint.job
  union all
  select
    id, kind, queue, state, priority, run_at, created_at, finished_at,
    attempts, crashes, interruptions, faults, epoch, run, lease_id, null, worker, claimed_at, false,
    max_attempts, max_crashes, timeout_ms, lease_ms, expires_at, key, tenant, tags, null, null, reason, meta, payload,
    result, log
  from stint.history;

-- PostgreSQL grants usage of new types to everyone by default.
revoke all on type stint.job_state from public;
