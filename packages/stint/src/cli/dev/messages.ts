import type { DashboardConfig } from "../../config.ts";
import type { StopReport } from "../../worker/events.ts";
import type { GlobalOptions } from "../context.ts";

/** From `stint dev` to the process of its worker. A second stop aborts handlers; `now` aborts at once and releases the jobs. */
export type ToChild =
  | { type: "run"; globals: GlobalOptions; config: string }
  | { type: "stop"; now?: boolean };

/**
 * The dashboard options of the config, sent by the worker's process, which alone loads the config. Functions cannot be sent between
 * processes, and `hosts` does not apply to a dashboard that serves only this machine.
 */
export type Serving = {
  readonly schema: string;
  readonly dashboard: Omit<DashboardConfig, "hosts" | "addressOf" | "onAudit">;
};

/** From the process of the worker to `stint dev`. */
export type FromChild = ({ type: "serving" } & Serving) | { type: "stopped"; report: StopReport };
