import type { Db } from "../db/db.ts";
import { makeIdleCheck, type IdleCheck, type IdleCheckPart } from "../sql/idle-check.ts";
import { idleCheckService, type IdleCheckOptions } from "./idle-check.ts";
import type { Service } from "./service-loop.ts";
import { services as allServices, type ServiceName } from "./services.ts";
import type { RunningService, UpkeepDeps, UpkeepService } from "./upkeep-service.ts";

/** An idle check as the worker sees it. `nextDueMs`: until the first service has work that a sleeping worker must wake for; null: none has. */
export type WorkerIdleCheck = Omit<IdleCheck, "dueInMs" | "serverMs"> & { readonly nextDueMs: number | null };

export type UpkeepOptions = Omit<UpkeepDeps, "db"> &
  Pick<IdleCheckOptions, "queues" | "search"> & {
    /** How long until the next idle check, about. */
    readonly idleCheckMs: () => number;
    readonly onIdleCheck: (seen: WorkerIdleCheck) => void | Promise<void>;
    /** Called after the services. The claim loop must poll by itself until the next check. */
    readonly onIdleCheckFailed: () => void;
  };

/** The parts that services add to the idle check, by the name of the service. */
export function idleCheckParts(services: readonly UpkeepService[]): Record<string, IdleCheckPart> {
  return Object.fromEntries(
    services.flatMap(({ name, idleCheck }) => (idleCheck === undefined ? [] : [[name, idleCheck]])),
  );
}

/** Runs the upkeep services of a worker. An idle check every few seconds shows which of them have work. */
export class Upkeep {
  readonly #running: ReadonlyMap<string, RunningService>;
  readonly #parts: Readonly<Record<string, IdleCheckPart>>;
  readonly #idleCheck: Service;
  readonly #services: readonly Service[];

  constructor(db: Db, options: UpkeepOptions, services: readonly UpkeepService[] = allServices) {
    const deps = { db, ...options };
    this.#running = new Map(services.map(({ name, create }) => [name, create(deps)]));
    this.#parts = idleCheckParts(services);
    this.#idleCheck = idleCheckService(db, {
      logger: options.logger,
      check: makeIdleCheck(this.#parts),
      queues: options.queues,
      search: options.search,
      kinds: options.worker.kinds,
      everyMs: options.idleCheckMs,
      onChecked: async (seen) => {
        for (const [name, running] of this.#running) {
          const dueInMs = seen.dueInMs[name] ?? null;
          if (running.onIdleCheck !== undefined) running.onIdleCheck(dueInMs, seen.at);
          else if (dueInMs !== null) wakeIn(running, Math.max(dueInMs, 0));
        }
        await options.onIdleCheck({ ...seen, nextDueMs: this.#nextDueMs(seen) });
      },
      onFailed: (error) => {
        for (const { onIdleCheckFailed } of this.#running.values()) onIdleCheckFailed?.(error);
        options.onIdleCheckFailed();
      },
    });
    this.#services = [...[...this.#running.values()].map(({ service }) => service), this.#idleCheck];
  }

  start(): void {
    for (const service of this.#services) service.start();
  }

  /** Send nothing until `resume`. */
  pause(): void {
    for (const service of this.#services) service.pause();
  }

  resume(): void {
    for (const service of this.#services) service.resume();
  }

  async stop(): Promise<void> {
    await Promise.all(this.#services.map((service) => service.stop()));
  }

  /** How late the loop of the idle check is. It continues without a database: only a blocked process is late for long. */
  get overdueMs(): number {
    return this.#idleCheck.overdueMs;
  }

  /** Whether no service has unfinished work, so that the worker may sleep. */
  get isDone(): boolean {
    return [...this.#running.values()].every(({ isDone }) => isDone?.() ?? true);
  }

  /** Flush soon what only this process knows: the worker is about to sleep. */
  flushSoon(): void {
    for (const { service, flush, isDone } of this.#running.values())
      if (flush !== undefined && isDone?.() === false) service.wakeIn(0);
  }

  /** Flush what only this process knows, after the services have stopped. */
  async flush(): Promise<void> {
    await Promise.all([...this.#running.values()].map(async ({ flush }) => await flush?.()));
  }

  /** Do an idle check at once. */
  checkSoon(): void {
    this.#idleCheck.wakeIn(0);
  }

  /** Run a service in at most this many milliseconds. */
  wake(name: ServiceName, inMs: number): void {
    const running = this.#running.get(name);
    if (running !== undefined) wakeIn(running, inMs);
  }

  #nextDueMs({ dueInMs }: IdleCheck): number | null {
    const times = Object.entries(dueInMs).flatMap(([name, ms]) =>
      ms !== null && this.#parts[name]?.endsSleep === true ? [ms] : [],
    );
    return times.length === 0 ? null : Math.min(...times);
  }
}

function wakeIn({ service, onWake }: RunningService, ms: number): void {
  if (ms <= 0 && onWake !== undefined) onWake();
  else service.wakeIn(ms);
}
