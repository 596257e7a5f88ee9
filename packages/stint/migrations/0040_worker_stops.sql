-- Stops of workers: how long each drain took, and what became of the jobs that ran.
-- oldest code: 1

-- Written when a worker deletes its row. A worker that is killed leaves none. Pruned after the retention of finished jobs.
create table stint.worker_stop (
  worker     text not null,
  host       text not null,
  version    text not null,
  started_at timestamptz not null,
  stopped_at timestamptz not null default clock_timestamp(),
  drained    integer not null,                     -- attempts that ended during the stop
  released   integer not null,                     -- jobs that were released with nothing spent
  ms         integer not null,                     -- from the request to stop until nothing ran any more
  primary key (stopped_at, worker)                 -- read from its end, pruned from its head
);
