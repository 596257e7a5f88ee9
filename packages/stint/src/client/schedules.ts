import type { Db } from "../db/db.ts";
import { codeOf } from "../db/sqlstate.ts";
import { InvalidOptionError, ScheduleConflictError, ScheduleNotFoundError } from "../errors.ts";
import type { JobTypes } from "../define.ts";
import { checkName, checkText } from "../model/names.ts";
import { refuseUnknownKeys } from "../model/options.ts";
import type { ScheduleTiming } from "../model/schedule.ts";
import { newId } from "../runtime/new-id.ts";
import {
  changeSchedule,
  changeScheduleInside,
  conflictCode,
  putSchedules,
  putSchedulesInside,
  runSchedule,
  runScheduleInside,
  type ScheduleDetail,
  type ScheduleRow,
} from "../sql/schedules.ts";
import type { Slot } from "../sql/schedule-slots.ts";
import type { AuditEntry } from "../sql/audit.ts";
import type { InsideStatement } from "../sql/inside.ts";
import {
  resolveSchedule,
  scheduleRow,
  type SchedulePrepareOptions,
  type SetScheduleOptions,
} from "./define-schedule.ts";
import type { ActOptions } from "./jobs.ts";
import {
  readNextSlots,
  readSchedule,
  readScheduleAudit,
  readSchedules,
  readSlots,
  requireSchedule,
  type Read,
  type ListSchedulesOptions,
  type NextSlotsOptions,
  type SchedulePage,
  type SlotsOptions,
} from "./read-schedules.ts";
import { withRetry } from "./retry.ts";

export type SchedulesClientOptions = SchedulePrepareOptions & {
  readonly actor: string;
  readonly whileOpen: <T>(work: () => Promise<T>) => Promise<T>;
  /** Called before every write. Checks the schema and learns the database's clock, from which slots are computed. */
  readonly ready: () => Promise<void>;
  /** Wake workers: a schedule has changed. */
  readonly wake: () => void;
};

/** One of `setMany`. */
export type ScheduleEntry = { readonly name: string } & SetScheduleOptions;

/** Changes of schedules in the caller's transaction: they happen exactly if it commits. */
export type SchedulesInside = {
  set<Types extends JobTypes>(
    name: string,
    options: SetScheduleOptions<Types>,
    act?: ActOptions,
  ): Promise<void>;
  setMany(entries: readonly ScheduleEntry[], act?: ActOptions): Promise<number>;
  remove(name: string, act?: ActOptions): Promise<boolean>;
  pause(name: string, act?: ActOptions): Promise<void>;
  resume(name: string, act?: ActOptions): Promise<void>;
  runNow(name: string, act?: ActOptions): Promise<string>;
};

/** How statements reach the caller's transaction. */
export type TransactionOfSchedules = {
  /** The id of the transaction. */
  readonly begin: (what: string) => Promise<string>;
  readonly run: <T>(what: string, statement: InsideStatement<T>) => Promise<T>;
  readonly quietly: <T>(work: Promise<T>) => Promise<T>;
};

/** Written in one statement each. All of them commit together. */
const batch = 1_000;
const mostPerCall = 100_000;

/** Makes and changes schedules at run time. `stint.schedules` is one. */
export class SchedulesClient {
  readonly #db: Db;
  readonly #options: SchedulesClientOptions;

  constructor(db: Db, options: SchedulesClientOptions) {
    this.#db = db;
    this.#options = options;
  }

  /**
   * Make a schedule, or change the one of this name. A change of its times replaces the pending slot.
   *
   * @throws {InvalidOptionError} An option cannot work: an unknown zone, a pattern that never matches, an end in the past.
   * @throws {InvalidPayloadError} The payload does not fit its kind.
   * @throws {ScheduleConflictError} Code declares a schedule of this name.
   */
  async set<Types extends JobTypes>(
    name: string,
    options: SetScheduleOptions<Types>,
    act: ActOptions = {},
  ): Promise<ScheduleDetail> {
    await this.#set("schedules.set", [{ ...requireObject("schedules.set", options), name }], act);
    return await this.#require(name);
  }

  /**
   * Make a schedule. A repeat of the same call changes nothing.
   *
   * @throws {ScheduleConflictError} Another schedule of this name exists.
   * @throws {InvalidOptionError} An option cannot work, as in `set`.
   */
  async create<Types extends JobTypes>(
    name: string,
    options: SetScheduleOptions<Types>,
    act: ActOptions = {},
  ): Promise<ScheduleDetail> {
    const entry = { ...requireObject("schedules.create", options), name };
    await this.#set("schedules.create", [entry], act, { create: true });
    return await this.#require(name);
  }

  /** Make or change many schedules, at most 100,000 in a call: all of them, or none. Returns how many changed. */
  async setMany(entries: readonly ScheduleEntry[], act: ActOptions = {}): Promise<number> {
    return requireMany(entries).length === 0 ? 0 : await this.#set("schedules.setMany", entries, act);
  }

  /** A schedule; undefined if there is none of this name. */
  async get(name: string): Promise<ScheduleDetail | undefined> {
    return await readSchedule(this.#read, name);
  }

  /** Schedules by name, a page at a time. */
  async list(options: ListSchedulesOptions = {}): Promise<SchedulePage> {
    return await readSchedules(this.#read, options);
  }

  /** The latest slots of a schedule, newest first: which fired, which did not and why. */
  async slots(name: string, options: SlotsOptions = {}): Promise<Slot[]> {
    return await readSlots(this.#read, name, options);
  }

  /**
   * The next slots of a schedule, or of a timing that is not stored yet: for a preview.
   *
   * @throws {InvalidOptionError} The timing cannot work.
   */
  async next(schedule: string | ScheduleTiming, options: NextSlotsOptions = {}): Promise<Date[]> {
    return await readNextSlots(this.#read, schedule, options);
  }

  /** The newest 100 changes of a schedule, newest first. */
  async audit(name: string): Promise<AuditEntry[]> {
    return await readScheduleAudit(this.#read, name);
  }

  /**
   * Remove a schedule that was made at run time. Jobs that exist stay. Returns whether there was one.
   *
   * @throws {ScheduleConflictError} Code declares it: remove it there, or pause it.
   */
  async remove(name: string, act: ActOptions = {}): Promise<boolean> {
    return (await this.#change("remove", name, act)) === true;
  }

  /** Fire no slot until `resume`. Also for schedules of code; a deploy does not end the pause. */
  async pause(name: string, act: ActOptions = {}): Promise<void> {
    if ((await this.#change("pause", name, act)) === null) throw new ScheduleNotFoundError(name);
  }

  /** Fire slots again, from now on. */
  async resume(name: string, act: ActOptions = {}): Promise<void> {
    if ((await this.#change("resume", name, act)) === null) throw new ScheduleNotFoundError(name);
    this.#options.wake();
  }

  /**
   * Enqueue the job of a schedule now, in addition to its slots. Returns the job's id.
   *
   * @throws {ScheduleConflictError} Its job has not ended, and its `overlap` is not "allow".
   */
  async runNow(name: string, act: ActOptions = {}): Promise<string> {
    const wanted = checkName(name, "schedules.runNow(name)");
    const audit = this.#actOf("schedules.runNow", act);
    const id = newId();
    const found = await this.#run(async (db) => await runSchedule(db, wanted, id, audit));
    if (found === null) throw new ScheduleNotFoundError(name);
    return found;
  }

  /** The same changes within a transaction of the caller. */
  inside({ begin, run, quietly }: TransactionOfSchedules): SchedulesInside {
    const conflicting = <T>(work: () => Promise<T>): Promise<T> =>
      quietly(
        work().catch((error: unknown) => {
          throw asConflict(error);
        }),
      );
    const set = async (what: string, entries: readonly ScheduleEntry[], act: ActOptions): Promise<number> => {
      const xid = begin(what);
      xid.catch(() => undefined);
      const audit = this.#actOf(what, act);
      const rows = await this.#rows(what, entries);
      let sum = 0;
      for (let from = 0; from < rows.length; from += batch)
        sum += await run(what, putSchedulesInside(rows.slice(from, from + batch), audit, await xid));
      return sum;
    };
    const change = async (
      action: "remove" | "pause" | "resume",
      name: string,
      act: ActOptions,
    ): Promise<boolean> => {
      const what = `schedules.${action}`;
      const wanted = checkName(name, `${what}(name)`);
      const audit = this.#actOf(what, act);
      const done = await run(what, changeScheduleInside(action, wanted, audit, await begin(what)));
      if (done === null && action !== "remove") throw new ScheduleNotFoundError(name);
      return done === true;
    };
    const runNow = async (name: string, act: ActOptions): Promise<string> => {
      const what = "schedules.runNow";
      const wanted = checkName(name, `${what}(name)`);
      const audit = this.#actOf(what, act);
      const id = await run(what, runScheduleInside(wanted, newId(), audit, await begin(what)));
      if (id === null) throw new ScheduleNotFoundError(name);
      return id;
    };
    return {
      set: (name, options, act = {}) =>
        conflicting(async () => {
          await set("schedules.set", [{ ...requireObject("schedules.set", options), name }], act);
        }),
      setMany: (entries, act = {}) =>
        conflicting(async () => await set("schedules.setMany", requireMany(entries), act)),
      remove: (name, act = {}) => conflicting(async () => await change("remove", name, act)),
      pause: (name, act = {}) => conflicting(async () => void (await change("pause", name, act))),
      resume: (name, act = {}) => conflicting(async () => void (await change("resume", name, act))),
      runNow: (name, act = {}) => conflicting(async () => await runNow(name, act)),
    };
  }

  async #rows(what: string, entries: readonly ScheduleEntry[]): Promise<ScheduleRow[]> {
    const definitions = entries.map((entry, index) => {
      const option = entries.length === 1 ? what : `${what}[${index}]`;
      const { name, ...options } = requireObject(option, entry);
      return { option, definition: resolveSchedule(option, name, options) };
    });
    await this.#options.whileOpen(async () => await withRetry(this.#db, this.#options.ready));
    const now = this.#db.clock.nowMs();
    return await Promise.all(
      definitions.map(
        async ({ option, definition }) => await scheduleRow(option, definition, now, this.#options),
      ),
    );
  }

  async #set(
    what: string,
    entries: readonly ScheduleEntry[],
    act: ActOptions,
    mark: Pick<ScheduleRow, "create"> = {},
  ): Promise<number> {
    const audit = this.#actOf(what, act);
    const rows = (await this.#rows(what, entries)).map((row) => Object.assign({}, row, mark));
    const changed = await this.#run(async (db) => {
      if (rows.length <= batch) return await putSchedules(db, rows, audit);
      return await db.transaction(async (tx) => {
        let sum = 0;
        for (let from = 0; from < rows.length; from += batch)
          sum += await putSchedules(tx, rows.slice(from, from + batch), audit);
        return sum;
      });
    });
    if (changed > 0) this.#options.wake();
    return changed;
  }

  async #change(
    action: "remove" | "pause" | "resume",
    name: string,
    act: ActOptions,
  ): Promise<boolean | null> {
    const wanted = checkName(name, `schedules.${action}(name)`);
    const audit = this.#actOf(`schedules.${action}`, act);
    return await this.#run(async (db) => await changeSchedule(db, action, wanted, audit));
  }

  async #require(name: string): Promise<ScheduleDetail> {
    return await requireSchedule(this.#read, name);
  }

  /** Every change may be repeated: sent again after a lost result, it changes nothing. */
  readonly #read: Read = async (work) => await this.#run(work);

  async #run<T>(work: (db: Db) => Promise<T>): Promise<T> {
    try {
      return await this.#options.whileOpen(async () => await withRetry(this.#db, work));
    } catch (error) {
      throw asConflict(error);
    }
  }

  #actOf(what: string, options: ActOptions): { actor: string; reason: string | null } {
    refuseUnknownKeys(what, options, ["actor", "reason"]);
    const { actor = this.#options.actor, reason } = options;
    return {
      actor: checkText(actor, `${what}.actor`),
      reason: reason === undefined ? null : checkText(reason, `${what}.reason`),
    };
  }
}

/** The database's refusal as a typed error. Other errors stay as they are. */
export function asConflict(error: unknown): unknown {
  if (!(error instanceof Error) || codeOf(error) !== conflictCode) return error;
  const hint: unknown = (error as { hint?: unknown }).hint;
  const text = error.message.replace(/^stint: /, "");
  return new ScheduleConflictError(typeof hint === "string" ? `${text}. ${hint}` : text, { cause: error });
}

function requireMany(entries: readonly ScheduleEntry[]): readonly ScheduleEntry[] {
  const given: unknown = entries;
  if (Array.isArray(given) && given.length <= mostPerCall) return entries;
  throw new InvalidOptionError("schedules.setMany", "takes an array of at most 100,000 schedules");
}

function requireObject<T extends object>(what: string, value: T): T {
  const given: unknown = value;
  if (typeof given === "object" && given !== null && !Array.isArray(given)) return value;
  throw new InvalidOptionError(what, "must be an object of options");
}
