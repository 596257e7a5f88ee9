import type { Context } from "../context.ts";
import { say } from "../output.ts";
import { openHealth, type HealthFlags } from "../serve-health.ts";
import type { ServeFlags } from "../serve-worker.ts";
import { onStopSignals } from "../stop-signals.ts";
import { groupProbes } from "./group-health.ts";
import { ProcessGroup } from "./process-group.ts";
import { WorkerProcess } from "./worker-process.ts";

export type Supervised = {
  /** How many processes to start with. */
  readonly size: number;
  readonly flags: ServeFlags & HealthFlags;
  /** What is said of the processes at the start. */
  readonly title: string;
  readonly event: { readonly event: string } & Readonly<Record<string, unknown>>;
  /** Called once the first process serves. `stopping` aborts at the first request to stop. */
  readonly whileServing?: (group: ProcessGroup, stopping: AbortSignal) => Promise<void>;
};

/** Run worker processes until they are stopped by a signal. Resolves with the exit code. */
export async function supervise(
  context: Context,
  { size, flags, title, event, whileServing }: Supervised,
): Promise<number> {
  const { out } = context;
  const { pool, drain } = flags;
  // Every process writes through these.
  for (const stream of [process.stdout, process.stderr]) stream.setMaxListeners(0);
  const group = new ProcessGroup({
    out,
    size,
    start: (number) =>
      new WorkerProcess(number, context.globals, {
        ...(pool === undefined ? {} : { pool }),
        ...(drain === undefined ? {} : { drain }),
      }),
  });
  const health = await openHealth(groupProbes(group), flags);
  const stopping = new AbortController();
  const forget = onStopSignals(() => {
    stopping.abort();
    group.stop();
  });
  const onHangUp = (): void => group.restart();
  process.on("SIGHUP", onHangUp);
  try {
    if (out.json) out.event({ ...event, ...(health && { health: health.url }) });
    else out.line(say`${title}${health === undefined ? "" : `, health at ${health.url}`}`);
    const meanwhile = group.serving.then(async (serves) => {
      if (serves) await whileServing?.(group, stopping.signal);
    });
    const code = await group.run();
    stopping.abort();
    await meanwhile;
    return code;
  } finally {
    process.off("SIGHUP", onHangUp);
    forget();
    await health?.close();
  }
}
