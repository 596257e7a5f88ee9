/** The dashboard is a package of its own, which need not be installed. What is used of it is written down here. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { DashboardConfig } from "../config.ts";
import type { Logger } from "../runtime/logger.ts";
import type { Stint } from "../stint.ts";

type Dashboard = {
  readonly node: (req: IncomingMessage, res: ServerResponse) => void;
  readonly close: () => Promise<void>;
};
type Authorize = (request: Request, context: object) => unknown;

export type DashboardModule = {
  readonly createDashboard: (
    options: DashboardConfig & { stint: Stint; logger: Logger; authorize?: Authorize },
  ) => Dashboard;
  readonly serveDashboard: (
    dashboard: Dashboard,
    options: { port: number; host?: string; orAnyPort?: boolean },
  ) => Promise<{ readonly url: string; close(): Promise<void> }>;
  readonly anyOf: (...several: readonly Authorize[]) => Authorize;
  readonly bearer: (token: string) => Authorize;
  readonly basic: (options: { password: string }) => Authorize;
};

export const dashboardPort = 4000;
export const installHint = "npm install --save-dev @stint/dashboard";

/** Undefined: it is not installed. */
export async function loadDashboard(): Promise<DashboardModule | undefined> {
  // Not a literal: the compiler would want the package, which is built after this one.
  const name = "@stint/dashboard";
  try {
    return (await import(name)) as DashboardModule;
  } catch (error) {
    // Something that it needs and does not find is another matter.
    const { code, message } = error as { code?: unknown; message?: unknown };
    if (code === "ERR_MODULE_NOT_FOUND" && String(message).includes(`'${name}'`)) return undefined;
    throw error;
  }
}
