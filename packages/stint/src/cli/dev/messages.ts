import type { StopReport } from "../../worker/events.ts";
import type { GlobalOptions } from "../context.ts";

/** From `stint dev` to the process that runs its worker. A second stop hurries. */
export type ToChild = { type: "run"; globals: GlobalOptions; config: string } | { type: "stop" };

/** And back. */
export type FromChild = { type: "serving"; schema: string } | { type: "stopped"; report: StopReport };
