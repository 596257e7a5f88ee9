import { jsonLogger, silentLogger } from "../../runtime/logger.ts";
import { createStint } from "../../create-stint.ts";
import { dashboardPort, installHint, loadDashboard } from "../load-dashboard.ts";
import { say, type Output } from "../output.ts";
import { lineLogger } from "./line-logger.ts";
import type { Serving } from "./messages.ts";

export type DevDashboard = {
  /** Called with the worker's schema and the dashboard options of the config; called again after each reload. */
  show(serving: Serving): void;
  close(): Promise<void>;
};

/** The dashboard of `stint dev`. It runs in the parent process, so a reload does not interrupt it. */
export function devDashboard(url: string, port: number | undefined, out: Output): DevDashboard {
  let current: { shows: string; close: () => Promise<void> } | undefined;
  // Serialized: a reload must not open a second dashboard while the first is still opening.
  let opening = Promise.resolve();

  async function open({ schema, dashboard: config }: Serving): Promise<void> {
    const shows = JSON.stringify([schema, config]);
    if (current?.shows === shows) return;
    const module = await loadDashboard();
    if (module === undefined) {
      current = { shows, close: async () => undefined };
      out.note(say`For the dashboard: ${installHint}`);
      return;
    }
    await current?.close();
    current = undefined;
    const client = createStint({ database: url, schema, logger: silentLogger, actor: "dashboard" });
    const logger = out.json ? jsonLogger() : lineLogger(out);
    const dashboard = module.createDashboard({ ...config, stint: client, logger });
    const close = async (): Promise<void> => {
      await dashboard.close();
      await client.close();
    };
    try {
      const server = await module.serveDashboard(dashboard, {
        port: port ?? dashboardPort,
        orAnyPort: port === undefined,
      });
      current = { shows, close: async () => await server.close().then(close) };
      if (out.json) out.event({ event: "dashboard", url: server.url });
      else out.line(say`The dashboard is at ${server.url}`);
    } catch (error) {
      await close();
      throw error;
    }
  }

  return {
    show(serving) {
      opening = opening
        .then(() => open(serving))
        .catch((error: unknown) => {
          // The worker runs without it.
          out.warn(say`No dashboard: ${error instanceof Error ? error.message : String(error)}`);
        });
    },
    async close() {
      await opening;
      await current?.close();
    },
  };
}
