import { InvalidOptionError } from "../errors.ts";
import { describe } from "../model/describe.ts";
import type { AnyMiddleware, Handler, HandlerContext } from "./handler.ts";

/** Calls user code where the lease thread can see which attempt it belongs to. */
export type Enter = <T>(call: () => T) => T;

/** Call the handler inside its middlewares, the first outermost. Resolves with the result of the outermost one. */
export function callHandler(
  handler: () => unknown,
  middlewares: readonly AnyMiddleware[],
  context: HandlerContext,
  enter: Enter,
): Promise<unknown> {
  const layer = async (index: number): Promise<unknown> => {
    const middleware = middlewares[index];
    if (middleware === undefined) return await enter(handler);
    const inside = new Inside(() => layer(index + 1), context);
    let value: unknown;
    try {
      value = await enter(() => middleware(context, inside.next));
    } finally {
      inside.close();
    }
    await inside.unawaited();
    return value;
  };
  return layer(0);
}

/** The middlewares of the worker, then those of the kind that are not among them. */
export function middlewaresOf(
  ofWorker: readonly AnyMiddleware[],
  { middlewares = [] }: Handler,
): readonly AnyMiddleware[] {
  if (middlewares.length === 0) return ofWorker;
  return [...ofWorker, ...middlewares.filter((one) => !ofWorker.includes(one))];
}

/** What a middleware wraps: the next middleware, or the handler. It runs at most once, and only while the middleware runs. */
class Inside {
  readonly #call: () => Promise<unknown>;
  readonly #context: HandlerContext;
  #running: Promise<unknown> | undefined;
  #ended = false;
  #closed = false;

  constructor(call: () => Promise<unknown>, context: HandlerContext) {
    this.#call = call;
    this.#context = context;
  }

  readonly next = (values?: unknown): Promise<unknown> => {
    if (this.#closed) return refused("was called after its middleware had ended");
    if (this.#running !== undefined) return refused("was called twice; the handler runs once in an attempt");
    const refusal = values === undefined ? undefined : add(values, this.#context);
    if (refusal !== undefined) return refused(refusal);
    const ended = (): void => void (this.#ended = true);
    const running = (this.#running = this.#call());
    // Also handles a rejection that a middleware without `await next()` would leave unhandled.
    running.then(ended, ended);
    return running;
  };

  close(): void {
    this.#closed = true;
  }

  /** A middleware that returned before the handler ended did not await it. A failure of the handler still counts. */
  async unawaited(): Promise<void> {
    if (!this.#ended) await this.#running;
  }
}

/** Values that middlewares passed to `next`, by the context they were added to. */
const added = new WeakMap<HandlerContext, Record<string, unknown>>();

export function addedByMiddlewares(context: HandlerContext): Readonly<Record<string, unknown>> {
  return added.get(context) ?? {};
}

/** Adds the values of `next(values)` to the context. Returns why they are refused, if they are. */
function add(values: unknown, context: HandlerContext): string | undefined {
  if (typeof values !== "object" || values === null || Array.isArray(values))
    return `takes an object of values for the context, got ${describe(values)}`;
  const taken = Object.keys(values).find((name) => name in context);
  if (taken !== undefined) return `cannot replace "${taken}", which the context has already`;
  const all = added.get(context) ?? {};
  added.set(context, Object.assign(all, values));
  Object.assign(context, values);
  return undefined;
}

function refused(rule: string): Promise<never> {
  const refusal = Promise.reject(new InvalidOptionError("next", rule));
  refusal.catch(() => undefined);
  return refusal;
}
