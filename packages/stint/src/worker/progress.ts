import type { Db } from "../db/db.ts";
import { InvalidOptionError, LeaseLostError } from "../errors.ts";
import type { ClaimedJob } from "../model/job.ts";
import { encodeJson } from "../model/json.ts";
import { checkFraction, mostLogLines, toReportText, type LogLine } from "../model/progress.ts";
import { Wakeable } from "../runtime/sleep.ts";
import { lastCheckpoint } from "../sql/progress.ts";
import { Completion } from "./completion.ts";
import type { ProgressWriter } from "./fenced-writer.ts";
import { untilReachable } from "./until-reachable.ts";

export type ProgressDeps = {
  readonly db: Db;
  readonly progressWriter: Pick<ProgressWriter, "write">;
  readonly maxResultBytes: number;
};

/** What the reports of a handler need of its attempt. */
export type AttemptOfProgress = {
  readonly job: ClaimedJob;
  readonly aborted: Error | undefined;
  /** Whether the handler has ended. */
  readonly over: boolean;
  onActivity(): void;
};

/** Progress and log lines of one job are written at most this often. A checkpoint that is awaited is written at once. */
const betweenWritesMs = 200;

type Waiter = { readonly resolve: () => void; readonly reject: (error: unknown) => void };

/** What one attempt reports: checkpoints, progress and log lines. Only the latest of each is written; lines are collected. */
export class AttemptProgress {
  readonly #attempt: AttemptOfProgress;
  readonly #deps: ProgressDeps;
  readonly #pause = new Wakeable();
  readonly #calls: Completion<void>[] = [];
  #fraction: number | null = null;
  #note: string | null = null;
  #checkpoint: string | null = null;
  #lines: LogLine[] = [];
  #waiters: Waiter[] = [];
  #writing: Promise<void> | undefined;
  #ending = false;
  #latest: { readonly value: unknown } | undefined;

  constructor(attempt: AttemptOfProgress, deps: ProgressDeps) {
    this.#attempt = attempt;
    this.#deps = deps;
  }

  progress(fraction: number, note?: string): void {
    this.#requireOpen("progress");
    const checked = checkFraction(fraction);
    const text = note === undefined ? null : toReportText(note, "progress(note)");
    [this.#fraction, this.#note] = [checked, text];
    this.#changed();
  }

  log(text: string): void {
    this.#requireOpen("log");
    this.#lines.push({ text: toReportText(text, "log(text)"), loggedAt: performance.now() });
    if (this.#lines.length > mostLogLines) this.#lines.shift();
    this.#changed();
  }

  checkpoint(value: unknown): Promise<void> {
    const call = Completion.of(async () => {
      this.#requireOpen("checkpoint");
      const { kind } = this.#attempt.job;
      this.#checkpoint = encodeJson(value, { kind, root: "checkpoint", maxBytes: this.#deps.maxResultBytes });
      // As it is read back: the handler may continue to change the value.
      this.#latest = { value: JSON.parse(this.#checkpoint) as unknown };
      const stored = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));
      this.#changed();
      this.#pause.wake();
      await stored;
    });
    this.#calls.push(call);
    return call;
  }

  async lastCheckpoint(): Promise<unknown> {
    const { job } = this.#attempt;
    if (this.#latest !== undefined) return this.#latest.value;
    // A job that was never claimed before has none.
    if (job.fence.epoch === 1) return undefined;
    const read = async (): Promise<unknown> => await lastCheckpoint(this.#deps.db, job.fence.job);
    return await untilReachable(read, () => this.#attempt.aborted);
  }

  /** The handler has ended: write what is left. Never rejects. */
  async ended(): Promise<void> {
    this.#ending = true;
    this.#pause.wake();
    await this.#writing;
    for (const call of this.#calls) await call.ended();
  }

  /** The failure of a checkpoint that the handler did not await, if there is one. */
  get unhandled(): { readonly error: unknown } | undefined {
    return this.#calls.find((call) => call.unhandled !== undefined)?.unhandled;
  }

  #requireOpen(what: string): void {
    const { over, job } = this.#attempt;
    if (over || this.#ending)
      throw new InvalidOptionError(what, `was called after the handler of job ${job.fence.job} had ended`);
  }

  #changed(): void {
    this.#attempt.onActivity();
    this.#writing ??= this.#write().finally(() => (this.#writing = undefined));
  }

  /** One write at a time. What changes meanwhile goes into the next one. */
  async #write(): Promise<void> {
    const { job } = this.#attempt;
    // What the handler reports in this turn goes into one write.
    await Promise.resolve();
    while (this.#isDirty) {
      const report = {
        fence: job.fence,
        fraction: this.#fraction,
        note: this.#note,
        checkpoint: this.#checkpoint,
        lines: this.#lines,
      };
      const waiters = this.#waiters;
      [this.#fraction, this.#note, this.#checkpoint, this.#lines, this.#waiters] = [null, null, null, [], []];
      try {
        const written = await this.#deps.progressWriter.write(report);
        if (written === "lost") throw new LeaseLostError(job.fence.job, job.fence.epoch);
        for (const { resolve } of waiters) resolve();
      } catch (error) {
        for (const { reject } of waiters) reject(error);
      }
      if (!this.#ending && this.#waiters.length === 0) await this.#pause.wait(betweenWritesMs);
    }
  }

  get #isDirty(): boolean {
    return this.#fraction !== null || this.#checkpoint !== null || this.#lines.length > 0;
  }
}
