import type { Moment } from "./job.ts";

/** A sleep, or a wait for a signal, that a job remembers. `until`: when it ends by itself. */
type Wait = {
  readonly seq: number;
  readonly name: string;
  readonly awaits: string | null;
  until: Moment | null;
  result: "pending" | "received" | "timed-out";
};

type Signal = { readonly id: string; readonly job: string; readonly name: string; delivered: boolean };

/** What a handler calls next: the wait it is in, or a new one. */
export type NextWait = { seq: number; name: string; awaits: string | null };

/** The sleeps, the waits and the signals of all jobs. */
export class Waits {
  readonly #waits = new Map<string, Wait[]>();
  #signals: Signal[] = [];

  /** A handler that is called again comes to the wait it left by. Once that is over, it comes to the next one. */
  next(job: string, awaits: string | null, now: number): NextWait {
    const waits = this.#of(job);
    const open = waits.find((one) => one.awaits === awaits && isOpen(one, now));
    if (open !== undefined) return open;
    const seq = waits.length + 1;
    return { seq, name: `${awaits === null ? "sleep" : `signal ${awaits}`} ${seq}`, awaits };
  }

  /** The signal that a job waits for. */
  awaitedBy(job: string): string | undefined {
    return (
      this.#of(job).find(({ awaits, result }) => awaits !== null && result === "pending")?.awaits ?? undefined
    );
  }

  /** The time at which the wait ends by itself, and whether its signal is there already. */
  begin(job: string, wait: NextWait, until: Moment | null): { until: Moment | null; signalled: boolean } {
    const waits = this.#of(job);
    let known = waits.find(({ name }) => name === wait.name);
    if (known === undefined) waits.push((known = { ...wait, until, result: "pending" }));
    const signalled = this.#signals.some((one) => one.job === job && one.name === wait.awaits);
    return { until: known.until, signalled };
  }

  receive(job: string, wait: NextWait, now: number): "received" | "timed-out" | "none" {
    const waits = this.#of(job);
    let known = waits.find(({ name }) => name === wait.name);
    if (known !== undefined && known.result !== "pending") return known.result;
    const signal = this.#signals.find((one) => one.job === job && one.name === wait.awaits);
    const isOver = known?.until != null && known.until[0] <= now;
    if (signal === undefined && !isOver) return "none";
    this.#signals = this.#signals.filter((one) => one !== signal);
    if (known === undefined) waits.push((known = { ...wait, until: null, result: "pending" }));
    known.result = signal === undefined ? "timed-out" : "received";
    return known.result;
  }

  send(id: string, job: string, name: string): void {
    this.#signals.push({ id, job, name, delivered: false });
  }

  /** Returns how many signals were delivered, and which jobs wait for one of them. */
  deliver(): { found: number; awaited: Set<string> } {
    const sent = this.#signals.filter((one) => !one.delivered);
    for (const one of sent) one.delivered = true;
    const isAwaited = ({ job, name }: Signal): boolean =>
      this.#of(job).some((wait) => wait.awaits === name && wait.result === "pending");
    return { found: sent.length, awaited: new Set(sent.filter(isAwaited).map(({ job }) => job)) };
  }

  /** A person made the job ready: it sleeps no longer. */
  awake(job: string, now: Moment): void {
    for (const wait of this.#of(job))
      if (wait.awaits === null && wait.until !== null && wait.until[0] > now[0]) wait.until = now;
  }

  forget(job: string): void {
    this.#waits.delete(job);
  }

  waitsOf(job: string): string[] {
    return this.#of(job).map(({ name, result }) => `${name} ${result}`);
  }

  signalsOf(job: string): string[] {
    return this.#signals
      .filter((one) => one.job === job)
      .map(({ name, delivered }) => `${name}${delivered ? "" : " (new)"}`);
  }

  #of(job: string): Wait[] {
    const known = this.#waits.get(job) ?? [];
    this.#waits.set(job, known);
    return known;
  }
}

/** A sleep stays as it was recorded; its time decides. */
function isOpen({ awaits, result, until }: Wait, now: number): boolean {
  return awaits === null ? until !== null && until[0] > now : result === "pending";
}
