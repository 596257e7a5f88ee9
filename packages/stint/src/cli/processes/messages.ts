import type { GlobalOptions } from "../context.ts";
import type { ServeFlags } from "../serve-worker.ts";

/** From the supervisor of `stint worker --processes` or `stint autoscale` to one of its processes. */
export type ToProcess =
  | { type: "run"; globals: GlobalOptions; flags: ServeFlags }
  | { type: "stop"; hurry: boolean }
  | { type: "probe"; id: number };

/** The health of one process. Each check is "ok", or the reason why not. */
export type Probed = {
  readonly live: string;
  readonly ready: string;
  readonly started: string;
  readonly metrics: string;
};

/** From a process to its supervisor. Handlers can call `process.send`, too: other messages are ignored. */
export type FromProcess =
  | { type: "stint:starting"; worker: string }
  | { type: "stint:serving"; longestStopMs: { drained: number; hurried: number } }
  | ({ type: "stint:probed"; id: number } & Probed);
