import { toMs } from "../model/duration.ts";
import { formatMs } from "../model/figures.ts";
import { jsonLogger } from "../runtime/logger.ts";
import type { StopReport } from "../worker/events.ts";
import type { Worker } from "../worker/worker.ts";
import type { Context } from "./context.ts";
import { deferred } from "./deferred.ts";
import { say, type Output } from "./output.ts";
import { requireWorker, selectPools, served, servedText, type ServedPool } from "./serving.ts";

/** Flags of `stint worker` that concern the worker itself. */
export type ServeFlags = { readonly pool?: readonly string[]; readonly drain?: string };

export type MadeWorker = {
  readonly worker: Worker;
  readonly pools: readonly ServedPool[];
  readonly schema: string;
};

/** The worker of the config, not started yet. It reacts to no signal. */
export async function makeWorker(context: Context, { pool, drain }: ServeFlags): Promise<MadeWorker> {
  if (drain !== undefined) toMs(drain, "--drain");
  const config = await context.requireConfig();
  const selected = selectPools(requireWorker(config), pool);
  const client = await context.client({ logger: config.options.logger ?? jsonLogger() });
  const worker = client.worker({ ...selected, ...(drain === undefined ? {} : { drain }), signals: false });
  return { worker, pools: served(selected), schema: await context.schema() };
}

/** Calls back on each request to stop. Returns a function that stops listening. */
export type StopRequests = (callback: () => void) => () => void;

/** Start the worker, and stop it at the first request; at the second, cut the drain short. */
export async function untilStopped(
  worker: Worker,
  onRequest: StopRequests,
  started: () => void,
): Promise<StopReport> {
  // Listens before the start: a signal that arrives meanwhile must not end a worker that is about to claim.
  const requested = deferred();
  let stopping = false;
  const forget = onRequest(() => {
    if (stopping) void worker.stop();
    stopping = true;
    requested.resolve();
  });
  // During a database outage no socket may be open, and nothing else would keep the process alive.
  const alive = setInterval(() => undefined, 60_000);
  try {
    await worker.start();
    started();
    await requested.promise;
    return await worker.stop();
  } finally {
    clearInterval(alive);
    forget();
  }
}

export function sayServing(
  out: Output,
  { worker, pools, schema }: MadeWorker,
  more: Readonly<Record<string, unknown>> = {},
): void {
  if (out.json) out.event({ event: "serving", worker: worker.id, schema, pools, ...more });
  else out.line(say`Serving ${servedText(pools)} in schema ${schema} as ${worker.id}`);
}

export function sayStopped(out: Output, report: StopReport): void {
  const { drained, released, ms } = report;
  if (out.json) out.event({ event: "stopped", ...report });
  else out.line(say`Drained in ${formatMs(ms)}: ${drained} ended, ${released} released.`);
}
