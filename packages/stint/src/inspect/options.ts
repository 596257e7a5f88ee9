import { toMs } from "../model/duration.ts";
import { refuseUnknownKeys, requireInteger } from "../model/options.ts";
import type { InspectorOptions } from "./types.ts";

/** @throws {InvalidOptionError} An option of `inspector` cannot work. */
export function resolveInspector(options: InspectorOptions): {
  connections: number;
  applicationName: string;
  statementTimeoutMs: number;
} {
  refuseUnknownKeys("inspector", options, ["connections", "timeout"]);
  return {
    connections: requireInteger("inspector.connections", options.connections ?? 2, { min: 1, max: 20 }),
    applicationName: "stint inspector",
    statementTimeoutMs: toMs(options.timeout ?? "5s", "inspector.timeout"),
  };
}
