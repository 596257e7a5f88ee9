/** What people's deeds on one job (operate.ts) and on many (operate-many.ts) have in common. */

export const audit = `insert into stint.audit (id, actor, action, reason, job_id)`;

/** All of a waiting job that goes into history, and the state it was in. */
export const waitingColumns = (state: string): string => `
      j.id, j.kind, j.queue, ${state}, j.priority, j.run_at, j.created_at, j.attempts, j.crashes, j.interruptions, j.faults,
      j.epoch, j.run, j.max_attempts, j.max_crashes, j.timeout_ms, j.lease_ms, j.key, j.tenant, j.tags, j.meta, j.payload, j.log`;

/** What is `gone` from the live jobs is cancelled now. */
export const endCancelled = (reason: string): string => `
    insert into stint.history (
      id, kind, queue, state, priority, run_at, created_at, finished_at, attempts, crashes, interruptions, faults,
      epoch, run, max_attempts, max_crashes, timeout_ms, lease_ms, key, tenant, tags, reason, meta, payload, log
    )
    select
      id, kind, queue, 'cancelled', priority, run_at, created_at, clock_timestamp(), attempts, crashes, interruptions, faults,
      epoch, run, max_attempts, max_crashes, timeout_ms, lease_ms, key, tenant, tags, ${reason}::text, meta, payload, log
    from gone`;

/** All of an ended job that is kept when it is replayed, and the state it was in. */
export const endedColumns = `
      h.id, h.kind, h.queue, h.state, h.priority, h.created_at, h.interruptions, h.epoch, h.run,
      h.max_attempts, h.max_crashes, h.timeout_ms, h.lease_ms, h.key, h.tenant, h.tags, h.meta, h.payload, h.log`;

/** What is `gone` from history is live again, with fresh attempts. The epoch goes on: a worker left over from an earlier life must never match again. */
export const liveAgain = `
    insert into stint.job (
      id, kind, queue, state, priority, run_at, created_at, attempts, crashes, interruptions, faults, epoch, run,
      max_attempts, max_crashes, timeout_ms, lease_ms, key, tenant, tags, meta, payload, log
    )
    select
      id, kind, queue, 'ready', priority, clock_timestamp(), created_at, 0, 0, interruptions, 0, epoch, run + 1,
      max_attempts, max_crashes, timeout_ms, lease_ms, key, tenant, tags, meta, payload, log
    from gone`;
