import { formatMs } from "../../model/figures.ts";
import { RetryDelay } from "../../runtime/retry-delay.ts";
import { settledWithin } from "../../runtime/sleep.ts";
import { deferred } from "../deferred.ts";
import { say, type Output } from "../output.ts";
import { exitCodes } from "../report-error.ts";
import type { Child } from "./run-child.ts";

export type SupervisorOptions = {
  readonly out: Output;
  readonly start: () => Child;
};

/** A process that ran this long is not in a crash loop. */
const longLifeMs = 60_000;

/** Keeps one worker process running the newest code. The old process exits before the new one starts. */
export class Supervisor {
  readonly #options: SupervisorOptions;
  readonly #stopping = deferred();
  readonly #retryDelay = new RetryDelay(Math.random, { baseMs: 250, capMs: 10_000 });
  #changed = deferred();
  #isStopping = false;
  #hasServed = false;
  #child: Child | undefined;

  constructor(options: SupervisorOptions) {
    this.#options = options;
  }

  /** Code changed: restart the process. */
  reload(file: string): void {
    const { out } = this.#options;
    if (out.json) out.event({ event: "changed", file });
    else out.line(say`${file} changed; starting again`);
    this.#changed.resolve();
  }

  /** Drain and stop. A second call aborts handlers. */
  stop(): void {
    this.#isStopping = true;
    this.#stopping.resolve();
    this.#child?.stop();
  }

  /** Resolves with the exit code, after `stop` or when the first worker could not run at all. */
  async run(): Promise<number> {
    while (!this.#isStopping) {
      // The new process loads all changes up to now.
      this.#changed = deferred();
      const startedAt = performance.now();
      const child = this.#options.start();
      this.#child = child;
      void child.serving.then((serves) => (this.#hasServed ||= serves));
      await Promise.race([child.ended, this.#changed.promise, this.#stopping.promise]);

      if (child.isAlive()) {
        // `stop` has already signalled the child; a second signal would abort its drain.
        // After a save, jobs that run the old code are not waited for; they are released with no attempt spent.
        if (!this.#isStopping) child.stop({ now: true });
        await child.ended;
        this.#sayStopped(child);
      } else if (!this.#isStopping) {
        const ending = await child.ended;
        if ("signal" in ending) {
          if (performance.now() - startedAt > longLifeMs) this.#retryDelay.reset();
          this.#sayKilled(ending.signal);
          await settledWithin(
            this.#retryDelay.next(),
            Promise.race([this.#changed.promise, this.#stopping.promise]),
          );
          continue;
        }
        const { code } = ending;
        // An unusable database is not fixed by an edit, so `stint dev` exits. A wrong config is: wait for the edit.
        if (!this.#hasServed && code !== exitCodes.usage) return code;
        this.#sayEnded(code);
        await Promise.race([this.#changed.promise, this.#stopping.promise]);
      }
    }
    return exitCodes.ok;
  }

  #sayStopped(child: Child): void {
    const { out } = this.#options;
    const report = child.report();
    if (report === undefined) return;
    if (out.json) out.event({ event: "stopped", ...report });
    else
      out.line(say`Drained in ${formatMs(report.ms)}: ${report.drained} ended, ${report.released} released.`);
  }

  #sayKilled(signal: NodeJS.Signals): void {
    const { out } = this.#options;
    if (out.json) out.event({ event: "killed", signal });
    else out.line(say`The worker was killed by ${signal}; starting it again`);
  }

  #sayEnded(code: number): void {
    const { out } = this.#options;
    if (out.json) out.event({ event: "ended", code });
    else out.line(say`The worker ended (exit code ${code}). Waiting for a change.`);
  }
}
