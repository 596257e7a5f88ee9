import type { Fence } from "#stint/model/job.js";
import { newId } from "#stint/runtime/new-id.js";
import { claim, claimQuarantined } from "#stint/sql/claim.js";
import { changeWaiting } from "#stint/sql/change.js";
import { completeWaiting } from "#stint/sql/complete.js";
import { enqueue } from "#stint/sql/enqueue.js";
import { planNextRun } from "#stint/sql/next-run.js";
import { cancel, replay, runNow } from "#stint/sql/operate.js";
import { promote } from "#stint/sql/promote.js";
import { renew } from "#stint/sql/renew.js";
import { rescue } from "#stint/sql/rescue.js";
import { finish } from "#stint/sql/finish.js";
import { requeue, type Requeue } from "#stint/sql/requeue.js";
import { deliver, receiveSignal, sendSignalOnce } from "#stint/sql/signals.js";
import { suspend } from "#stint/sql/suspend.js";
import type { Fresh } from "../support/fresh.ts";
import { kinds, queues, type Command, type Pick } from "./commands.ts";
import type { NewJob } from "./job.ts";
import { Reference } from "./reference.ts";

const failed = { outcome: "failed" as const };
const requeues: Record<Extract<Command, { do: "requeue" }>["how"], Omit<Requeue, "fence">> = {
  retry: { state: "retrying", delayMs: 250_000, countsAs: "attempt", ending: failed },
  "retry at once": { state: "retrying", delayMs: 0, countsAs: "attempt", ending: failed },
  snooze: { state: "scheduled", delayMs: 50_000, countsAs: "interruption", ending: { outcome: "snoozed" } },
  release: { state: "ready", delayMs: null, countsAs: "interruption", ending: { outcome: "released" } },
  park: parkedFor(null),
  "park for a time": parkedFor(50_000),
};

function parkedFor(until: number | null): Omit<Requeue, "fence"> {
  const park = { reason: "review" as const, note: "a note", until };
  return { state: "parked", delayMs: until, countsAs: "interruption", park, ending: { outcome: "parked" } };
}

/** The results of a command in the database and in the model. They must be equal. */
export type Results = { real: unknown; model: unknown };

/** The database and the model side by side, and what a test knows of both: the ids and fences that were given out. */
export class World {
  readonly model = new Reference();
  readonly ids: string[] = [];
  readonly fences: Fence[] = [];
  readonly #fresh: Fresh;

  constructor(fresh: Fresh) {
    this.#fresh = fresh;
  }

  async run(command: Command): Promise<Results> {
    const { db } = this.#fresh;
    const { model } = this;
    switch (command.do) {
      case "enqueue":
        return await this.#enqueue(command);
      case "claim":
        return await this.#claim(command);
      case "claimQuarantined":
        return await this.#claimQuarantined();
      case "renew": {
        const fence = this.#pick(command.fence);
        const [real] = await renew(db, [{ ...fence, leaseMs: command.leaseMs }]);
        return {
          real,
          model: { ...fence, ...model.renew(fence, command.leaseMs) },
        };
      }
      case "finish": {
        const fence = this.#pick(command.fence);
        const ending = command.state === "succeeded" ? null : failed;
        const { state } = command;
        const ended = await finish(db, [{ fence, state, result: null, reason: "a reason", ending }]);
        return {
          real: ended.has(fence),
          model: model.finish(fence, state, "a reason", ending?.outcome ?? null),
        };
      }
      case "requeue": {
        const fence = this.#pick(command.fence);
        const how = requeues[command.how];
        const { outcome } = how.ending;
        const back = await requeue(db, [{ fence, ...how }]);
        return {
          real: back.has(fence),
          model:
            how.park === undefined
              ? model.requeue(fence, how.state, how.delayMs, how.countsAs === "attempt", outcome)
              : model.park(fence, how.park.reason, how.park.note, how.delayMs),
        };
      }
      case "suspend": {
        const fence = this.#pick(command.fence);
        const wait = model.nextWait(fence.job, command.awaits);
        const parked = await suspend(db, [{ ...wait, fence, until: command.untilMs }]);
        return { real: parked.has(fence), model: model.suspend(fence, wait, command.untilMs) };
      }
      case "receive": {
        const fence = this.#pick(command.fence, ({ job }) => model.waits.awaitedBy(job) !== undefined);
        const awaits = model.waits.awaitedBy(fence.job) ?? command.awaits;
        const wait = model.nextWait(fence.job, awaits);
        const sent = { seq: wait.seq, step: wait.name, signal: awaits };
        const { outcome } = await receiveSignal(db, fence, sent);
        return { real: outcome, model: model.receive(fence, wait) };
      }
      case "signal": {
        const { name } = command;
        const row = {
          id: newId(),
          target: this.#job(command.job),
          kind: null,
          name,
          payload: "{}",
          sender: "model",
        };
        const { status } = await sendSignalOnce(db, row, false, Date.now() + 3_600_000);
        return { real: status, model: model.signal(row.id, row.target, name) };
      }
      case "deliver": {
        const { found, delivered } = await deliver(db, 500);
        const ready = await this.#fresh.sql<{ id: string }>(
          `select id from stint.job where state = 'ready' order by run_at`,
        );
        return { real: { found, delivered }, model: model.deliver(ready.map(({ id }) => id)) };
      }
      case "again": {
        const fence = this.#pick(command.fence);
        const planned = await planNextRun(db, fence, {
          delayMs: command.delayMs,
          at: null,
          payload: null,
          limits: null,
        });
        // The database makes the id of the next run.
        const [next] = await this.#fresh.sql<{ id: string }>(
          `select row ->> 'id' as id from stint.next_run where job_id = $1`,
          [fence.job],
        );
        if (planned && next !== undefined && !this.ids.includes(next.id)) this.ids.push(next.id);
        return { real: planned, model: model.planNextRun(fence, next?.id ?? "", command.delayMs) };
      }
      case "change": {
        const { job, payload, delayMs, priority } = command;
        const id = this.#job(job);
        const change = {
          ...(payload === null ? {} : { payload: String(payload) }),
          ...(delayMs === null ? {} : { delay_ms: delayMs }),
          ...(priority === null ? {} : { priority }),
        };
        const audit = { auditId: newId(), actor: "model", reason: null };
        const { status } = await changeWaiting(db, id, change, audit);
        return { real: status, model: model.change(id, command) };
      }
      case "complete": {
        const id = this.#job(command.job);
        const audit = { auditId: newId(), actor: "model", reason: null };
        return { real: await completeWaiting(db, id, null, audit), model: model.complete(id) };
      }
      case "cancel":
      case "replay":
      case "runNow": {
        const id = this.#job(command.job);
        const audit = { auditId: newId(), actor: "model", reason: "asked for" };
        const operations = { cancel, replay, runNow };
        return {
          real: await operations[command.do](db, id, audit),
          model: model[command.do](id, "asked for"),
        };
      }
      case "rescue": {
        const rescued = await rescue(db, { limit: 500, maxCrashes: 3 });
        const real = rescued.map(({ job, state, crashes }) => ({ job, state, crashes }));
        return { real: byJob(real), model: byJob(model.rescue(3)) };
      }
      case "promote": {
        const { promoted, nextDueMs } = await promote(db, 500);
        return { real: { promoted, someWait: nextDueMs !== null }, model: model.promote() };
      }
      case "tick":
        break;
    }
    await this.#tick(command.ms);
    return { real: "later", model: "later" };
  }

  async #enqueue({ jobs }: Extract<Command, { do: "enqueue" }>): Promise<Results> {
    const batch = jobs.map((job): NewJob => ({
      id: newId(),
      kind: kinds[job.kind] ?? "",
      queue: queues[job.queue] ?? "",
      priority: job.priority,
      maxCrashes: job.maxCrashes,
      payload: job.payload,
      // A replaced run time needs one.
      delayMs: job.dedupe?.replace === "run_at" ? (job.delayMs ?? 50_000) : job.delayMs,
      dedupe: job.dedupe === null ? null : { ...job.dedupe, key: `key ${job.dedupe.key}` },
    }));
    const rows = batch.map(({ id, kind, queue, priority, maxCrashes, payload, delayMs, dedupe }) => ({
      row: {
        id,
        kind,
        queue,
        priority,
        ...(maxCrashes === null ? {} : { max_crashes: maxCrashes }),
        ...(delayMs === null ? {} : { delay_ms: delayMs }),
        ...(dedupe === null ? {} : { dedupe_key: dedupe.key }),
        ...(typeof dedupe?.until === "string" ? { dedupe_until: dedupe.until } : {}),
        ...(typeof dedupe?.until === "number" ? { dedupe_ms: dedupe.until } : {}),
        ...(dedupe?.replace == null ? {} : { replace: dedupe.replace }),
        ...(dedupe?.maxWaitMs == null ? {} : { max_wait_ms: dedupe.maxWaitMs }),
      },
      payload: String(payload),
      meta: undefined,
    }));
    const result = await enqueue(this.#fresh.db, rows, false);
    this.ids.push(...result.map((row) => row.id).filter((id) => batch.some((job) => job.id === id)));
    return { real: result.map(({ id, status }) => ({ id, status })), model: this.model.enqueue(batch) };
  }

  async #claim(command: Extract<Command, { do: "claim" }>): Promise<Results> {
    const queue = queues[command.queue] ?? "";
    const served = command.kinds === 2 ? kinds : [kinds[command.kinds] ?? ""];
    const { limit, leaseMs } = command;
    const leaseId = newId();
    const worker = `worker ${limit}`;
    const jobs = await claim(this.#fresh.db, {
      worker,
      leaseId,
      leaseMs,
      takes: [{ queue, limit }],
      kinds: served,
      kindLeaseMs: {},
    });
    this.fences.push(...jobs.map((job) => job.fence));
    const expected = this.model.claim(queue, served, limit, worker, leaseId, leaseMs);
    return { real: byJob(jobs.map((job) => job.fence)), model: byJob(expected) };
  }

  async #claimQuarantined(): Promise<Results> {
    const lease = { worker: "alone", leaseId: newId(), leaseMs: 250_000 };
    const [job] = await claimQuarantined(this.#fresh.db, {
      ...lease,
      queues,
      kinds,
      kindLeaseMs: {},
      waitedMs: 0,
    });
    const candidates = this.model.quarantined();
    if (job === undefined) return { real: [], model: candidates };
    this.fences.push(job.fence);
    if (!candidates.includes(job.fence.job)) return { real: job.fence.job, model: candidates };
    const { worker, leaseId, leaseMs } = lease;
    return { real: job.fence, model: this.model.claimQuarantined(job.fence.job, worker, leaseId, leaseMs) };
  }

  /** Time is made to pass by making everything that is stored older. */
  async #tick(ms: number): Promise<void> {
    const delta = `${ms} * interval '1 ms'`;
    await this.#fresh.sql(
      `with jobs as (
         update stint.job set run_at = run_at - ${delta}, created_at = created_at - ${delta},
           lease_until = lease_until - ${delta}, park_until = park_until - ${delta}
       ), waits as (
         update stint.step set until = until - ${delta}
       ), plans as (
         update stint.next_run
         set row = jsonb_set(row, '{run_at}', to_jsonb((row ->> 'run_at')::timestamptz - ${delta}))
       )
       update stint.dedupe_window set expires_at = expires_at - ${delta}`,
    );
    this.model.tick(ms);
  }

  #job(index: number): string {
    return this.ids[index % Math.max(1, this.ids.length)] ?? newId();
  }

  /** `first`: those of the fences that hold that are taken first. */
  #pick({ stale, index }: Pick, first: (fence: Fence) => boolean = () => false): Fence {
    const missing = { job: newId(), epoch: 1, leaseId: newId() };
    const holding = this.fences.filter(({ job, epoch }) => {
      const known = this.model.jobs.get(job);
      return known?.state === "running" && known.epoch === epoch;
    });
    const wanted = holding.filter(first);
    const held = wanted.length === 0 ? holding : wanted;
    const from = stale || held.length === 0 ? this.fences : held;
    return from[index % Math.max(1, from.length)] ?? missing;
  }
}

function byJob<T extends { job: string }>(list: readonly T[]): T[] {
  return [...list].sort((a, b) => (a.job < b.job ? -1 : 1));
}
