/** One of the processes of `stint worker --processes` or `stint autoscale`. */
import { probesOf } from "../../health/server.ts";
import { Context, type GlobalOptions } from "../context.ts";
import { exitCodeOf } from "../exit-code.ts";
import { makeWorker, sayServing, sayStopped, untilStopped, type ServeFlags } from "../serve-worker.ts";
import type { FromProcess, ToProcess } from "./messages.ts";

const listeners = new Set<() => void>();
let requested = false;
let probes: ReturnType<typeof probesOf> | undefined;

process.on("message", (message: ToProcess) => {
  if (message.type === "run") void run(message.globals, message.flags).then((code) => process.exit(code));
  else if (message.type === "stop") requestStop(message.hurry);
  else void probe(message.id);
});
// The supervisor is gone: drain, because nothing else would stop this process.
process.on("disconnect", () => requestStop());
process.on("SIGTERM", () => requestStop());
// A terminal sends these to every process of the group; the supervisor decides what they mean.
for (const signal of ["SIGINT", "SIGHUP"] as const) process.on(signal, () => undefined);

/** A platform may signal every process while the supervisor asks, too: only its hurry counts as a second request. */
function requestStop(hurry = false): void {
  if (requested && !hurry) return;
  requested = true;
  // Code of the config may wait for ever, and nothing has begun yet that must end.
  if (probes === undefined) process.exit(0);
  for (const listener of listeners) listener();
}

function onStopRequest(callback: () => void): () => void {
  listeners.add(callback);
  if (requested) callback();
  return () => listeners.delete(callback);
}

async function run(globals: GlobalOptions, flags: ServeFlags): Promise<number> {
  const context = new Context(globals);
  return await exitCodeOf(context, async () => {
    const made = await makeWorker(context, flags);
    const { worker } = made;
    probes = probesOf([worker]);
    // Before the row of the worker exists, so that an autoscaler never takes it for the worker of another machine.
    send({ type: "stint:starting", worker: worker.id });
    const report = await untilStopped(worker, onStopRequest, () => {
      sayServing(context.out, made);
      send({ type: "stint:serving", longestStopMs: worker.longestStopMs });
    });
    sayStopped(context.out, report);
  });
}

async function probe(id: number): Promise<void> {
  const probed =
    probes === undefined
      ? { live: "ok", ready: "not started", started: "not started", metrics: "" }
      : {
          live: await probes.live(),
          ready: await probes.ready(),
          started: await probes.started(),
          metrics: await probes.metrics(),
        };
  send({ type: "stint:probed", id, ...probed });
}

function send(message: FromProcess): void {
  if (process.connected) process.send?.(message, () => undefined);
}
