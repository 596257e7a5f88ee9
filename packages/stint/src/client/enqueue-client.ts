import { TransactionRequiredError } from "../errors.ts";
import type { JobDefinition } from "../define.ts";
import type { PgDb } from "../db/pg.ts";
import { UserTransaction, type TransactionLike } from "../db/transactions/user-transaction.ts";
import { refuseUnknownKeys, requireBoolean, requireOneOf } from "../model/options.ts";
import { encodeJson } from "../model/json.ts";
import { limitKeys } from "../model/limits.ts";
import { isThenable, validate } from "../model/standard-schema.ts";
import type { Change } from "../sql/change.ts";
import type { EncodedRow, EnqueuedRow } from "../sql/enqueue.ts";
import { signalStatementInside, type SignalRow } from "../sql/signals.ts";
import { checkSchemaVersion } from "../sql/schema-version.ts";
import {
  atEntry,
  requireEntries,
  toAllEnqueued,
  toEnqueued,
  type Batch,
  type BatchOptions,
  type Enqueued,
  type Enqueues,
  type Flow,
  type FlowParts,
  type InOptions,
  type ManyEntry,
} from "./entries.ts";
import { CommitWatch } from "./commit-watch.ts";
import { Enqueuer } from "./enqueue.ts";
import { enqueueIn, refusedQuietly, type Traced } from "./enqueue-in.ts";
import { batchRows, flowRows } from "./flow.ts";
import { inTransaction, type InTransaction } from "./in-transaction.ts";
import { runInside } from "./inside.ts";
import { Kinds } from "./kinds.ts";
import type { ResolvedStintOptions } from "./options.ts";
import { noOptions, prepareRow, type EnqueueOptions } from "./prepare.ts";
import { withRetry } from "./retry.ts";
import type { SchedulesClient } from "./schedules.ts";
import {
  jobOfSignal,
  sendSignal,
  toSignalRow,
  type SignalSendOptions,
  type SignalTarget,
} from "./signals.ts";
import { traced } from "./traced.ts";
import type { Waker } from "./waker.ts";

type SendRows = (rows: EncodedRow[] | Promise<EncodedRow[]>) => Promise<Enqueued[]>;

/** At once where all are ready: a statement in the caller's transaction must be sent before its COMMIT. */
function ready(rows: readonly (EncodedRow | Promise<EncodedRow>)[]): EncodedRow[] | Promise<EncodedRow[]> {
  return rows.some(isThenable) ? Promise.all(rows.map(async (row) => await row)) : (rows as EncodedRow[]);
}

/** The enqueueing half of a client: checks payloads, and sends rows outside or inside a transaction. */
export class EnqueueClient {
  readonly kinds: Kinds;
  readonly #options: ResolvedStintOptions;
  readonly #db: PgDb;
  readonly #waker: Waker;
  readonly #enqueuer: Enqueuer;
  readonly #commits: CommitWatch;
  #checked: Promise<void> | undefined;
  #isChecked = false;

  /** @param lockWaitDb Connections for enqueues that wait for another session's lock. */
  constructor(options: ResolvedStintOptions, db: PgDb, lockWaitDb: PgDb, waker: Waker) {
    const wakes = options.wake !== "none";
    this.kinds = new Kinds(options.jobs);
    this.#options = options;
    this.#db = db;
    this.#waker = waker;
    this.#commits = new CommitWatch(db, options.logger);
    this.#enqueuer = new Enqueuer({
      db,
      lockWaitDb,
      ready: () => (this.#isChecked ? undefined : this.checkSchema()),
      wakes: () => wakes && waker.ridesAlong(),
      onEnqueued: (rows, results, rodeMs) => {
        if (rodeMs !== undefined) waker.rodeAlong(rodeMs);
        waker.enqueued(rows, results, wakes && rodeMs === undefined);
      },
    });
  }

  /** Work in the caller's transaction. */
  in(tx: TransactionLike, options: InOptions, schedules: SchedulesClient): InTransaction {
    refuseUnknownKeys("stint.in", options, ["wake"]);
    const { schema, logger, actor } = this.#options;
    const wake = options.wake === undefined ? undefined : requireBoolean("stint.in.wake", options.wake);
    const notify = this.#options.wake === "none" ? false : wake;
    const inside = new UserTransaction(tx, schema);
    const send = async (rows: EncodedRow[] | Promise<EncodedRow[]>): Promise<Enqueued[]> => {
      const traced: Traced = (all, sent) => this.#traced(all, sent);
      const results = await enqueueIn(inside, rows, { notify, schema, traced });
      return toAllEnqueued(await rows, results);
    };
    const onRefused = (error: Error): void =>
      logger.error({ err: error }, "an enqueue was refused because its transaction was over");
    const commits = this.#commits;
    const enqueues: Enqueues = {
      // Nothing is awaited before the statement is sent: a ROLLBACK of a caller that does not await it must come after it.
      enqueue: (job: JobDefinition | string, payload: unknown, options?: EnqueueOptions) => {
        const one = async (): Promise<Enqueued> => {
          const row = this.#prepare({ job, payload, options: options ?? noOptions }, false);
          const [enqueued] = await send(isThenable(row) ? row.then((ready) => [ready]) : [row]);
          return enqueued as Enqueued;
        };
        return refusedQuietly(one(), onRefused);
      },
      enqueueMany: (entries) => {
        const all = async (): Promise<Enqueued[]> => await send(this.prepareAll(entries, false));
        return refusedQuietly(all(), onRefused);
      },
      flow: (name, parts) => refusedQuietly(this.#flow(name, parts, false, send), onRefused),
      batch: (entries, more) => refusedQuietly(this.#batch(entries, more, false, send), onRefused),
      signal: (target, name, payload, options = {}) => {
        const one = async (): Promise<string> => {
          const row = this.#signalRow(target, name, payload, options);
          const at = (xid: string | undefined) => signalStatementInside(row, notify, xid);
          return jobOfSignal(row, await runInside(inside, schema, `signal "${row.name}"`, at));
        };
        return refusedQuietly(one(), onRefused);
      },
    };
    // Assigned, not spread: a spread would call the getter of `schedules`.
    return Object.assign(
      inTransaction(inside, { schema, actor, logger, commits, schedules, encoders: this }),
      enqueues,
    );
  }

  /** After `before`, calls the hooks of transactions that have committed, and drops the others. Undefined if there is nothing to wait for. */
  closeHooks(before: Promise<unknown> | undefined): Promise<unknown> | undefined {
    return before === undefined ? this.#commits.close() : before.then(() => this.#commits.close());
  }

  /** Send a signal, committed when this resolves. */
  async signal(
    target: SignalTarget,
    name: string,
    payload: unknown,
    options: SignalSendOptions,
  ): Promise<string> {
    const row = this.#signalRow(target, name, payload, options);
    await withRetry(this.#db, async () => await this.checkSchema());
    const id = jobOfSignal(row, await sendSignal(this.#db, row, this.#options.wake !== "none"));
    // Workers of this process; the statement has sent the wake to the others.
    this.#waker.wake(["signal"], false);
    return id;
  }

  /** A result as JSON text, checked by the schema of its kind if this client has it. */
  async encodeResult(kind: string, result: unknown): Promise<string | null> {
    const options = { kind, root: "result", maxBytes: this.#options.maxPayloadBytes };
    const schema = this.kinds.known(kind)?.result;
    const checked = schema === undefined ? result : await validate(schema, result, options);
    return checked === undefined ? null : encodeJson(checked, options);
  }

  /** A payload as JSON text, checked by the schema of its kind, and its limit keys, if this client has the kind. */
  async encodePayload(kind: string, payload: unknown): Promise<Pick<Change, "payload" | "limits" | "order">> {
    const options = { kind, root: "payload", maxBytes: this.#options.maxPayloadBytes };
    const encoded = encodeJson(payload, options);
    const definition = this.kinds.known(kind);
    if (definition === undefined) return { payload: encoded };
    if (definition.payload !== undefined) await validate(definition.payload, payload, options);
    return { payload: encoded, ...limitKeys("change.payload", definition, payload) };
  }

  #signalRow(target: SignalTarget, name: string, payload: unknown, options: SignalSendOptions): SignalRow {
    const { actor: sender, maxPayloadBytes: maxBytes } = this.#options;
    return toSignalRow(target, name, payload, options, { sender, maxBytes });
  }

  /** Add one job, committed when this resolves. */
  async one(job: JobDefinition | string, payload: unknown, options?: EnqueueOptions): Promise<Enqueued> {
    const row = await this.#prepare({ job, payload, options: options ?? noOptions }, true);
    const { telemetry } = this.#options;
    if (telemetry === undefined) return toEnqueued(row, await this.#enqueuer.one(row));
    const send = ([one = row]: readonly EncodedRow[]): Promise<EnqueuedRow> => this.#enqueuer.one(one);
    return toEnqueued(row, await traced(telemetry, [row], send));
  }

  /** Add all of these jobs or none; or, with `onError: "report"`, each by itself. */
  async anyOf(
    entries: readonly ManyEntry[],
    options: { onError?: "throw" | "report" },
  ): Promise<(Enqueued | Error)[]> {
    refuseUnknownKeys("enqueueMany", options, ["onError"]);
    const onError = requireOneOf("enqueueMany.onError", options.onError ?? "throw", ["throw", "report"]);
    return onError === "report" ? await this.each(entries) : await this.many(entries);
  }

  /** Add all of these jobs, or none. */
  async many(entries: readonly ManyEntry[]): Promise<Enqueued[]> {
    const rows = await this.prepareAll(entries, true);
    if (rows.length === 0) return [];
    return toAllEnqueued(rows, await this.#traced(rows, (all) => this.#enqueuer.send(all)));
  }

  /** Add a whole flow, or nothing. */
  async flow<Parts extends FlowParts>(name: string, parts: Parts): Promise<Flow<Parts>> {
    return await this.#flow(name, parts, true, (rows) => this.#sendAll(rows));
  }

  /** Add a batch and its callback, or nothing. */
  async batch(entries: readonly ManyEntry[], options: BatchOptions): Promise<Batch> {
    return await this.#batch(entries, options, true, (rows) => this.#sendAll(rows));
  }

  async #flow<Parts extends FlowParts>(
    name: string,
    parts: Parts,
    outside: boolean,
    send: SendRows,
  ): Promise<Flow<Parts>> {
    const flow = flowRows(name, parts, (entry, id) => this.#prepare(entry, outside, id));
    const jobs = await send(ready(flow.rows));
    const byName = new Map(flow.names.map((part, index) => [part, jobs[index]]));
    const named = Object.fromEntries(Object.keys(parts).map((part) => [part, byName.get(part)]));
    return { id: flow.id, jobs: named as Flow<Parts>["jobs"] };
  }

  async #batch(
    entries: readonly ManyEntry[],
    options: BatchOptions,
    outside: boolean,
    send: SendRows,
  ): Promise<Batch> {
    const { id, rows } = batchRows(entries, options, (entry, own) => this.#prepare(entry, outside, own));
    const jobs = await send(ready(rows));
    return { id, jobs: jobs.slice(0, -1), callback: jobs.at(-1) as Enqueued };
  }

  async #sendAll(prepared: EncodedRow[] | Promise<EncodedRow[]>): Promise<Enqueued[]> {
    const rows = await prepared;
    return toAllEnqueued(rows, await this.#traced(rows, (all) => this.#enqueuer.send(all)));
  }

  /** Add each of these jobs by itself. An Error takes the place of one that failed. */
  async each(entries: readonly ManyEntry[]): Promise<(Enqueued | Error)[]> {
    const prepared = await Promise.allSettled(
      requireEntries(entries).map(async (entry) => await this.#prepare(entry, true)),
    );
    const good = prepared.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const results = good.length === 0 ? [] : await this.#traced(good, (all) => this.#enqueuer.sendApart(all));
    let next = 0;
    return prepared.map((one, index) => {
      if (one.status === "rejected") return atEntry(one.reason, index) as Error;
      const result = results[next++];
      return result instanceof Error ? result : toEnqueued(one.value, result);
    });
  }

  /** Synchronous where the kind's schema is. */
  #prepare(entry: ManyEntry, outside: boolean, id?: string): EncodedRow | Promise<EncodedRow> {
    const definition = this.kinds.find(entry.job);
    if (outside && definition.requiresTransaction) throw new TransactionRequiredError(definition.kind);
    return prepareRow(definition, entry.payload, entry.options ?? noOptions, {
      maxPayloadBytes: this.#options.maxPayloadBytes,
      dependencies: this.#options.dependencies,
      id,
    });
  }

  prepareAll(entries: readonly ManyEntry[], outside: boolean): EncodedRow[] | Promise<EncodedRow[]> {
    const rows = requireEntries(entries).map((entry, index) => {
      const refuse = (error: unknown): never => {
        throw atEntry(error, index);
      };
      try {
        const row = this.#prepare(entry, outside);
        return isThenable(row) ? row.catch(refuse) : row;
      } catch (error) {
        // As a rejection, like those of asynchronous schemas: several may fail, and none may go unhandled.
        return Promise.reject<EncodedRow>(atEntry(error, index));
      }
    });
    if (!rows.some((row) => isThenable(row))) return rows as EncodedRow[];
    return Promise.all(rows.map(async (row) => await row));
  }

  /** Send rows, within a trace if there is telemetry. */
  #traced<T>(rows: readonly EncodedRow[], send: (rows: readonly EncodedRow[]) => Promise<T>): Promise<T> {
    const { telemetry } = this.#options;
    return telemetry === undefined ? send(rows) : traced(telemetry, rows, send);
  }

  /** Once per client, before its first own write. A failed check is repeated by the next write. */
  async checkSchema(): Promise<void> {
    this.#checked ??= checkSchemaVersion(this.#db, this.#options.schema).catch((error: unknown) => {
      this.#checked = undefined;
      throw error;
    });
    await this.#checked;
    this.#isChecked = true;
  }
}
