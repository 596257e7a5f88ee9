import { isAllowed, isTerminal, type JobState } from "#stint/model/state.js";
import type { Fresh } from "../support/fresh.ts";

/** One row change as the trigger saw it. A job that moves between tables is a delete and an insert of one transaction. */
export type Change = {
  transaction: string;
  job: string;
  was: JobState | null;
  becomes: JobState | null;
  epoch: number;
  run: number;
  attempts: number;
  crashes: number;
  lease: string | null;
};

/** Writes down every change of every job, in the transaction that makes it. In tests only. */
export async function recordHistory(fresh: Fresh): Promise<void> {
  const statements = [
    `create table stint.change (
       seq bigserial primary key, transaction text, job uuid, was text, becomes text,
       epoch integer, run integer, attempts integer, crashes integer, lease uuid)`,
    `create function stint.record_change() returns trigger language plpgsql as $$
     declare r record := coalesce(new, old);
     begin
       -- Time made to pass by the test is no change of the job.
       if tg_op = 'UPDATE' and new.state = old.state and new.run_at < old.run_at then return null; end if;
       insert into stint.change (transaction, job, was, becomes, epoch, run, attempts, crashes, lease)
       values (pg_current_xact_id()::text, r.id,
         case when tg_op <> 'INSERT' then old.state end, case when tg_op <> 'DELETE' then new.state end,
         r.epoch, r.run, r.attempts, r.crashes, r.lease_id);
       return null;
     end $$`,
    `create trigger recorder after insert or update or delete on stint.job for each row execute function stint.record_change()`,
    `create trigger recorder after insert or update or delete on stint.history for each row execute function stint.record_change()`,
  ];
  for (const statement of statements) await fresh.sql(statement);
}

export async function readHistory(fresh: Fresh): Promise<Change[]> {
  return await fresh.sql<Change>(
    `select transaction, job, was, becomes, epoch, run, attempts, crashes, lease from stint.change order by seq`,
  );
}

type Seen = {
  state: JobState | "absent";
  epoch: number;
  run: number;
  attempts: number;
  crashes: number;
  lease: string | null;
};

/** Check the invariants of every history. Returns the violations. */
export function breachesOf(changes: readonly Change[]): string[] {
  const breaches: string[] = [];
  const jobs = new Map<string, Seen>();
  const leases = new Set<string>();
  for (const step of stepsOf(changes)) {
    const before = jobs.get(step.job) ?? {
      state: "absent",
      epoch: 0,
      run: 1,
      attempts: 0,
      crashes: 0,
      lease: null,
    };
    const need = (holds: boolean, rule: string): void => {
      if (!holds)
        breaches.push(`${rule}: job ${step.job} from ${JSON.stringify(before)} to ${JSON.stringify(step)}`);
    };
    const same = step.state === before.state;
    const claimed = step.state === "running" && !same;
    const replayed = before.state !== "absent" && isTerminal(before.state);

    need(same || isAllowed(before.state, step.state), "S0 a transition that is not in the table");
    need(!claimed || (before.lease === null && step.lease !== null), "S2 claimed while leased");
    need(!claimed || !leases.has(`${step.job} ${step.lease}`), "S3 a lease given out twice");
    need(
      step.epoch === before.epoch + (claimed ? 1 : 0),
      "S3 the epoch grows by one at a claim and never else",
    );
    need(!same || step.lease === before.lease, "S4 a lease that changed hands without a claim");
    need(
      step.attempts >= 0 && step.attempts <= before.attempts + (claimed ? 1 : 0),
      "S5 an attempt from nowhere",
    );
    need(step.crashes <= before.crashes + 1, "S5 a crash from nowhere");
    need(step.run === before.run + (replayed ? 1 : 0), "S6 an end that is left without a new run");

    if (claimed) leases.add(`${step.job} ${step.lease}`);
    jobs.set(step.job, { ...step, lease: isTerminal(step.state) ? null : step.lease });
  }
  return breaches;
}

type Step = Seen & { job: string; state: JobState };

/** Changes of one job in one transaction are one step; what counts is where it ends. */
function stepsOf(changes: readonly Change[]): Step[] {
  const steps = new Map<string, Step>();
  for (const { transaction, job, becomes, epoch, run, attempts, crashes, lease } of changes) {
    if (becomes === null) continue;
    steps.set(`${transaction} ${job}`, { job, state: becomes, epoch, run, attempts, crashes, lease });
  }
  return [...steps.values()];
}
