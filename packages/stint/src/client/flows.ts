import type { Db } from "../db/db.ts";
import { JobNotFoundError } from "../errors.ts";
import { RetryDelay } from "../runtime/retry-delay.ts";
import { sleep } from "../runtime/sleep.ts";
import { checkText } from "../model/names.ts";
import { refuseUnknownKeys, requireBoolean, requireInteger } from "../model/options.ts";
import type { EncodedRow } from "../sql/enqueue.ts";
import {
  addToBatch,
  cancelFlow,
  closeBatch,
  findFlow,
  listFlows,
  type FlowFilter,
  type FlowSummary,
  type FlowView,
} from "../sql/flows.ts";
import { withRetry } from "./retry.ts";
import { requireId } from "./ids.ts";
import type { ActOptions } from "./jobs.ts";
import { requireBatchEntries, type Enqueued, type ManyEntry } from "./entries.ts";

export type ListFlowsOptions = {
  /** Only flows with parts that have not ended. */
  live?: boolean;
  /** Names that contain this, case-insensitive. */
  search?: string;
  /** The id of the last flow of the page before. */
  after?: string;
  /** Flows per page, at most 200. Default 50. */
  limit?: number;
};

/** Checks and encodes entries that are enqueued outside a transaction. */
type Prepares = {
  prepareAll(entries: readonly ManyEntry[], outside: boolean): EncodedRow[] | Promise<EncodedRow[]>;
};

/** Flows, chains and batches as a whole. */
export class FlowsClient {
  readonly #db: Db;
  readonly #enqueues: Prepares;
  readonly #actor: string;
  readonly #run: <T>(call: () => Promise<T>) => Promise<T>;

  constructor(db: Db, enqueues: Prepares, actor: string, run: <T>(call: () => Promise<T>) => Promise<T>) {
    this.#db = db;
    this.#enqueues = enqueues;
    this.#actor = actor;
    this.#run = run;
  }

  /** Flows, newest first. */
  async list(options: ListFlowsOptions = {}): Promise<FlowSummary[]> {
    const filter = flowFilter(options);
    return await this.#send((db) => listFlows(db, filter));
  }

  /** A flow by its id or by the id of any of its jobs, with up to a thousand of its parts; undefined if there is none. */
  async get(id: string): Promise<FlowView | undefined> {
    const wanted = requireId(id, "flows.get(id)");
    return await this.#send((db) => findFlow(db, wanted));
  }

  /**
   * Cancel a flow, by its id or by that of any of its jobs: no part of it starts any more, running parts are asked to stop, and compensations run.
   * Returns how many parts were cancelled or asked to stop.
   *
   * @throws {JobNotFoundError} There is no such flow.
   */
  async cancel(id: string, options: ActOptions = {}): Promise<number> {
    refuseUnknownKeys("flows.cancel", options, ["actor", "reason"]);
    const flow = requireId(id, "flows.cancel(id)");
    const actor = options.actor === undefined ? this.#actor : checkText(options.actor, "flows.cancel.actor");
    const reason = options.reason === undefined ? null : checkText(options.reason, "flows.cancel.reason");
    let count = 0;
    const retryDelay = new RetryDelay(Math.random, { baseMs: 20, capMs: 500 });
    for (let left = 50; ; left--) {
      const sent = await this.#send((db) => cancelFlow(db, flow, actor, reason));
      if (sent === undefined) throw new JobNotFoundError(flow);
      count += sent.cancelled;
      // A part that is locked is being settled, or its lease is being renewed: neither takes long.
      if (sent.missed === 0 || left === 0) return count;
      await sleep(retryDelay.next());
    }
  }

  /**
   * Add jobs to an open batch.
   *
   * @throws {BatchClosedError} It was closed, or its callback has run.
   */
  async add(id: string, entries: readonly ManyEntry[]): Promise<Enqueued[]> {
    const batch = requireId(id, "flows.add(id)");
    requireBatchEntries(entries, "flows.add");
    const rows = await this.#enqueues.prepareAll(entries, true);
    await this.#send((db) => addToBatch(db, batch, rows));
    return rows.map(({ row }) => ({ id: row.id, kind: row.kind, created: true, status: "created" }));
  }

  /**
   * Close a batch: its callback runs when all of its jobs have ended. Closing it twice changes nothing.
   *
   * @throws {JobNotFoundError} There is no such batch.
   */
  async close(id: string): Promise<void> {
    const batch = requireId(id, "flows.close(id)");
    await this.#send((db) => closeBatch(db, batch));
  }

  // Every statement here can be repeated: ids are given, and a second time changes nothing.
  async #send<T>(work: (db: Db) => Promise<T>): Promise<T> {
    return await this.#run(() => withRetry(this.#db, work));
  }
}

/** @throws {InvalidOptionError} An option of `flows.list` cannot work. */
export function flowFilter(options: ListFlowsOptions): FlowFilter {
  refuseUnknownKeys("flows.list", options, ["live", "search", "after", "limit"]);
  const { live, search, after } = options;
  return {
    live: live !== undefined && requireBoolean("flows.list.live", live),
    search: search === undefined || search === "" ? "" : checkText(search, "flows.list.search", { max: 128 }),
    after: after === undefined ? null : requireId(after, "flows.list.after"),
    limit: requireInteger("flows.list.limit", options.limit ?? 50, { min: 1, max: 200 }),
  };
}
