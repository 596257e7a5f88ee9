import { HandlerCrashedError } from "../../errors.ts";
import type { Handler, HandlerContext } from "../handler.ts";
import type { AttemptLimits } from "./isolated-attempt.ts";
import { IsolatedChild } from "./isolated-child.ts";

/** A child without work is kept for so long: loading a handler again may take longer than running it. */
const keepIdleMs = 60_000;

type IdleChild = { readonly child: IsolatedChild; readonly timer: NodeJS.Timeout };

/** The threads and processes of a worker's isolated handlers: at most one for each attempt, kept for the next attempts of their kind. */
export class IsolatedHandlers {
  readonly #all = new Set<IsolatedChild>();
  readonly #idle = new Map<string, IdleChild[]>();
  #ended = false;

  /**
   * Load each isolated handler once, so that a file that cannot work is refused when the worker starts and fails no job.
   *
   * @throws {InvalidOptionError} The file has no handler of its kind, or throws.
   */
  async start(handlers: Iterable<Handler>): Promise<void> {
    // After a start that failed, handlers may be loaded already.
    this.#ended = false;
    const isolated = [...handlers].filter(
      ({ isolate, definition: { kind } }) => isolate !== undefined && !this.#hasIdle(kind),
    );
    await Promise.all(
      isolated.map(async (handler) => {
        const child = this.#make(handler);
        await child.loaded;
        this.#keep(handler.definition.kind, child);
      }),
    );
  }

  /** Run the handler for one attempt. */
  async run(handler: Handler, context: HandlerContext, limits: AttemptLimits): Promise<unknown> {
    const idle = this.#take(handler.definition.kind);
    if (idle === undefined) return await this.#runIn(this.#make(handler), handler, context, limits);
    try {
      return await this.#runIn(idle, handler, context, limits);
    } catch (error) {
      // It ended while it was idle, which says nothing about this job.
      if (!(error instanceof HandlerCrashedError) || idle.hasBegun) throw error;
      return await this.#runIn(this.#make(handler), handler, context, limits);
    }
  }

  async #runIn(
    child: IsolatedChild,
    { definition: { kind } }: Handler,
    context: HandlerContext,
    limits: AttemptLimits,
  ): Promise<unknown> {
    const { signal } = context;
    const abandon = (): void => child.kill();
    try {
      // Loading may take longer than the attempt has.
      signal.addEventListener("abort", abandon, { once: true });
      await child.loaded;
      signal.removeEventListener("abort", abandon);
      if (signal.aborted) throw signal.reason;
      return await child.run(context, limits);
    } finally {
      signal.removeEventListener("abort", abandon);
      this.#keep(kind, child);
    }
  }

  /** End every thread and process. */
  end(): void {
    this.#ended = true;
    for (const child of this.#all) child.kill();
  }

  #make({ definition: { kind }, isolate }: Handler): IsolatedChild {
    if (isolate === undefined) throw new Error(`the handler of ${kind} is not isolated`);
    const child = new IsolatedChild(kind, isolate, () => this.#all.delete(child));
    this.#all.add(child);
    return child;
  }

  #hasIdle(kind: string): boolean {
    return this.#idle.get(kind)?.some(({ child }) => child.isReusable) === true;
  }

  #take(kind: string): IsolatedChild | undefined {
    for (;;) {
      const idle = this.#idle.get(kind)?.pop();
      if (idle === undefined) return undefined;
      clearTimeout(idle.timer);
      if (idle.child.isReusable) return idle.child;
    }
  }

  #keep(kind: string, child: IsolatedChild): void {
    if (this.#ended || !child.isReusable) return child.kill();
    const idle = this.#idle.get(kind) ?? [];
    this.#idle.set(kind, idle);
    const timer = setTimeout(() => {
      const index = idle.findIndex((each) => each.child === child);
      if (index >= 0) idle.splice(index, 1);
      child.kill();
    }, keepIdleMs);
    timer.unref();
    idle.push({ child, timer });
  }
}
