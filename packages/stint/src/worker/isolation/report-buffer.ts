import { mostLogLines } from "../../model/progress.ts";

/** What goes out at once in each window: more than a person follows. */
const atOnce = 20;
const windowMs = 50;

type Send = (name: "progress" | "log", args: readonly unknown[]) => void;

/**
 * Progress and log lines on their way to the worker. Messages to it are not sent while a handler computes, so one that reports in a loop would fill its
 * memory with them. Beyond a few in each window, only the latest progress and the last lines are kept, as the worker does.
 */
export class ReportBuffer {
  readonly #send: Send;
  #progress: readonly unknown[] | undefined;
  #lines: string[] = [];
  #windowAt = -Infinity;
  #sent = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(send: Send) {
    this.#send = send;
  }

  progress(fraction: number, note: string | undefined): void {
    this.#progress = [fraction, note];
    this.#changed();
  }

  log(text: string): void {
    this.#lines.push(text);
    if (this.#lines.length > mostLogLines) this.#lines.shift();
    this.#changed();
  }

  flush(): void {
    clearTimeout(this.#timer);
    const [progress, lines] = [this.#progress, this.#lines];
    [this.#timer, this.#progress, this.#lines] = [undefined, undefined, []];
    if (progress !== undefined) this.#send("progress", progress);
    for (const line of lines) this.#send("log", [line]);
  }

  #changed(): void {
    const now = performance.now();
    if (now - this.#windowAt >= windowMs) [this.#windowAt, this.#sent] = [now, 0];
    if (++this.#sent <= atOnce) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), windowMs);
  }
}
