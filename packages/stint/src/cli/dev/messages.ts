import type { DashboardConfig } from "../../config.ts";
import type { StopReport } from "../../worker/events.ts";
import type { GlobalOptions } from "../context.ts";

/** From `stint dev` to the process that runs its worker. A second stop hurries; one with `now` hands back what runs. */
export type ToChild =
  | { type: "run"; globals: GlobalOptions; config: string }
  | { type: "stop"; now?: boolean };

/**
 * What the worker's process, which alone has the config, tells of what there is to show. Functions do not go from one process to
 * another, and names of other machines are none of a dashboard's that serves this one only.
 */
export type Serving = {
  readonly schema: string;
  readonly dashboard: Omit<DashboardConfig, "hosts" | "addressOf" | "onAudit">;
};

/** And back. */
export type FromChild = ({ type: "serving" } & Serving) | { type: "stopped"; report: StopReport };
