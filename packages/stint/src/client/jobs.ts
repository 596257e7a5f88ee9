import type { Db } from "../db/db.ts";
import { InvalidOptionError, JobNotFoundError, WrongStateError } from "../errors.ts";
import type { Job } from "../model/job.ts";
import { checkName, checkText } from "../model/names.ts";
import { refuseUnknownKeys, requireInteger, requireOneOf } from "../model/options.ts";
import { parkRules } from "../model/park-reasons.ts";
import { liveStates, states, type JobState } from "../model/state.ts";
import { newId } from "../runtime/new-id.ts";
import { auditOf, type AuditEntry } from "../sql/audit.ts";
import { get, lastOfChain, list, type ListFilter } from "../sql/find.ts";
import { changeWaiting, type Change } from "../sql/change.ts";
import { completeWaiting } from "../sql/complete.ts";
import { cancel, replay, runNow, stateOf } from "../sql/operate.ts";
import type { AuditInfo } from "../sql/transitions.ts";
import { requireChanged, resolveChange, type JobChange } from "./change.ts";
import { sendOnce, withRetry } from "./retry.ts";
import { requireId } from "./ids.ts";

export type ListOptions = {
  state?: JobState | readonly JobState[];
  kind?: string;
  queue?: string;
  tenant?: string;
  key?: string;
  tag?: string;
  /** The `next` of the previous page. */
  after?: string;
  /** Jobs per page, at most 1000. Default 50. */
  limit?: number;
};

/** One page of jobs, newest first, and the start of the next page. */
export type Page = { readonly jobs: readonly Job[]; readonly next: string | undefined };

/** The actor and the reason, for the audit. */
export type ActOptions = { actor?: string; reason?: string };

export type JobsOptions = {
  readonly actor: string;
  /** Notify workers of a change: a queue with a ready job, or a cancelled running job. */
  readonly wake: (hint: string) => void;
  /** Called before every action. Checks the schema and learns the database's clock, which sets the deadlines of actions. */
  readonly ready: () => Promise<void>;
  readonly encoders: Encoders;
};

/** Payloads and results as JSON text, checked by the schema of their kind. */
export type Encoders = {
  /** With the limit keys of the payload, if the client has the kind. */
  encodePayload(kind: string, payload: unknown): Promise<Pick<Change, "payload" | "limits" | "order">>;
  encodeResult(kind: string, result: unknown): Promise<string | null>;
};

/** Reads jobs, and cancels, replays or runs single ones. */
export class Jobs {
  readonly #db: Db;
  readonly #actor: string;
  readonly #wake: (hint: string) => void;
  readonly #ready: () => Promise<void>;
  readonly #encoders: Encoders;

  constructor(db: Db, { actor, wake, ready, encoders }: JobsOptions) {
    this.#db = db;
    this.#actor = actor;
    this.#wake = wake;
    this.#ready = ready;
    this.#encoders = encoders;
  }

  async get(id: string): Promise<Job | undefined> {
    const wanted = requireId(id);
    return await withRetry(this.#db, async (db) => await get(db, wanted));
  }

  async audit(id: string): Promise<AuditEntry[]> {
    const wanted = requireId(id);
    return await withRetry(this.#db, async (db) => await auditOf(db, wanted));
  }

  async list(options: ListOptions): Promise<Page> {
    const { state, kind, queue, tenant, key, tag, after, limit: size } = options;
    refuseUnknownKeys("list", options, ["state", "kind", "queue", "tenant", "key", "tag", "after", "limit"]);
    const limit = requireInteger("list.limit", size ?? 50, { min: 1, max: 1000 });
    const wanted = state === undefined ? states : [state].flat();
    const filter: ListFilter = {
      states: wanted.map((one) => requireOneOf("list.state", one, states)),
      limit: limit + 1,
      ...(kind === undefined ? {} : { kind: checkName(kind, "list.kind") }),
      ...(queue === undefined ? {} : { queue: checkName(queue, "list.queue") }),
      ...(tenant === undefined ? {} : { tenant: checkText(tenant, "list.tenant") }),
      ...(key === undefined ? {} : { key: checkText(key, "list.key") }),
      ...(tag === undefined ? {} : { tag: checkText(tag, "list.tag") }),
      ...(after === undefined ? {} : { before: requireId(after, "list.after") }),
    };
    const found = await withRetry(this.#db, async (db) => await list(db, filter));
    const jobs = found.slice(0, limit);
    return { jobs, next: found.length > limit ? jobs.at(-1)?.id : undefined };
  }

  async cancel(jobId: string, options: ActOptions): Promise<"cancelled" | "asked"> {
    const id = requireId(jobId);
    const audit = toAuditInfo(this.#actor, "cancel", options, false);
    // A job that is being claimed concurrently is neither waiting nor running for this statement: try again.
    for (let tries = 0; tries < 5; tries++) {
      const was = await this.#act("cancel", id, cancel, audit);
      if (was === "waiting") return "cancelled";
      if (was === "running") {
        this.#wake("cancel");
        return "asked";
      }
      const state = await this.#stateOf(id);
      // A chain is cancelled by cancelling its last job.
      const last = state === "succeeded" ? await withRetry(this.#db, (db) => lastOfChain(db, id)) : id;
      if (last !== id) return await this.cancel(last, options);
      if (!(liveStates as readonly JobState[]).includes(state))
        throw new WrongStateError(id, state, "cancel", liveStates);
    }
    throw new WrongStateError(id, "changing", "cancel", liveStates);
  }

  async runNow(jobId: string, options: ActOptions): Promise<void> {
    const id = requireId(jobId);
    const audit = toAuditInfo(this.#actor, "runNow", options, false);
    const queue = await this.#act("runNow", id, runNow, audit);
    if (queue !== undefined) {
      this.#wake(`ready:${queue}`);
      return;
    }
    const job = await this.get(id);
    if (job === undefined) throw new JobNotFoundError(id);
    const { state, parkReason } = job;
    if (state === "ready") return;
    const rule = parkReason === null ? undefined : parkRules[parkReason];
    if (state === "parked" && rule?.runNow === false)
      throw new WrongStateError(id, state, "runNow", ["scheduled", "retrying"], {
        reason: parkReason ?? "",
        why: rule.why,
      });
    throw new WrongStateError(id, state, "runNow", ["scheduled", "retrying", "parked"]);
  }

  async replay(jobId: string, options: ActOptions = {}): Promise<void> {
    const id = requireId(jobId);
    const audit = toAuditInfo(this.#actor, "replay", options, true);
    const queue = await this.#act("replay", id, replay, audit);
    if (queue === undefined) {
      const state = await this.#stateOf(id);
      // A replay would do again what the compensations of the flow undo.
      const stopped = state === "dead" || state === "cancelled" ? "part of a stopped flow" : state;
      throw new WrongStateError(id, stopped, "replay", ["dead", "cancelled"]);
    }
    this.#wake(`ready:${queue}`);
  }

  async complete(jobId: string, value: unknown, options: ActOptions): Promise<void> {
    const id = requireId(jobId);
    const audit = toAuditInfo(this.#actor, "complete", options, false);
    const job = await this.get(id);
    if (job === undefined) throw new JobNotFoundError(id);
    const result = await this.#encoders.encodeResult(job.kind, value);
    const kind = await this.#act(
      "complete",
      id,
      async (db, one, info) => await completeWaiting(db, one, result, info),
      audit,
    );
    if (kind !== undefined) return;
    const waiting = liveStates.filter((state) => state !== "running");
    throw new WrongStateError(id, await this.#stateOf(id), "complete", waiting);
  }

  async change(jobId: string, change: JobChange, options: ActOptions): Promise<void> {
    const id = requireId(jobId);
    const audit = toAuditInfo(this.#actor, "change", options, false);
    let wanted = resolveChange(change);
    if (change.payload !== undefined) {
      const job = await this.get(id);
      if (job === undefined) throw new JobNotFoundError(id);
      wanted = { ...wanted, ...(await this.#encoders.encodePayload(job.kind, change.payload)) };
    }
    const send = async (db: Db, one: string, info: AuditInfo) => await changeWaiting(db, one, wanted, info);
    requireChanged(id, wanted, await this.#act("change", id, send, audit));
  }

  async #act<T>(
    name: string,
    id: string,
    action: (db: Db, id: string, audit: AuditInfo) => Promise<T>,
    audit: AuditInfo,
  ): Promise<T> {
    await withRetry(this.#db, this.#ready);
    return await sendOnce(
      this.#db,
      name,
      id,
      async (until) => await action(this.#db, id, { ...audit, until }),
    );
  }

  async #stateOf(id: string): Promise<JobState> {
    const state = await withRetry(this.#db, async (db) => await stateOf(db, id));
    if (state === undefined) throw new JobNotFoundError(id);
    return state;
  }
}

export function toAuditInfo(
  actor: string,
  what: string,
  options: ActOptions,
  needsReason: boolean,
): AuditInfo {
  refuseUnknownKeys(what, options, ["actor", "reason"]);
  if (needsReason && options.reason === undefined) {
    throw new InvalidOptionError(
      `${what}.reason`,
      "is required: say why, for the people who read the audit later",
    );
  }
  return {
    auditId: newId(),
    actor: options.actor === undefined ? actor : checkText(options.actor, `${what}.actor`),
    reason: options.reason === undefined ? null : checkText(options.reason, `${what}.reason`),
  };
}
