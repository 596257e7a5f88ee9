import { basename, dirname } from "node:path";
import type { Command } from "commander";
import { version } from "../../version.ts";
import { examples, integer, runs } from "../command.ts";
import { findConfig } from "../config-file.ts";
import { missingConfig } from "../context.ts";
import { dashboardPort } from "../load-dashboard.ts";
import { say, paint } from "../output.ts";
import { exitCodes } from "../report-error.ts";
import { onStopSignals } from "../stop-signals.ts";

export function addDev(program: Command): void {
  const command = program.command("dev").summary("a database, the schema and the worker, for development");
  command.description(
    "Start a Postgres in .stint/ (or use DATABASE_URL), migrate, and run the worker of the config;\n" +
      "restart it when code in the config's folder changes. Ctrl-C drains, a second Ctrl-C stops at once.",
  );
  command
    .option(
      "--port <number>",
      `the dashboard's port (default ${dashboardPort}, or any that is free)`,
      integer,
    )
    .option("--no-dashboard", "serve no dashboard");
  examples(command, "stint dev", "DATABASE_URL=postgres://localhost/app stint dev");
  runs<{ port?: number; dashboard: boolean }>(command, async ({ out, globals }, { options }) => {
    // Only the worker's process loads the config: Node cannot reload a module in the same process.
    const config = (await findConfig(globals.config)) ?? missingConfig();
    const folder = dirname(config);
    const { devDashboard } = await import("../dev/dashboard.ts");
    const { openDevDatabase } = await import("../dev/database.ts");
    const { runChild } = await import("../dev/run-child.ts");
    const { Supervisor } = await import("../dev/supervisor.ts");
    const { watchCode } = await import("../dev/watch.ts");

    let stopped = false;
    let stop = (): void => {
      stopped = true;
    };
    const forget = onStopSignals(() => stop());
    const database = await openDevDatabase(globals, folder, out);
    const dashboard = options.dashboard ? devDashboard(database.url, options.port, out) : undefined;
    try {
      if (stopped) return exitCodes.ok;
      if (out.json) out.event({ event: "database", where: database.where });
      else
        out.line(
          say`${paint("bold", `stint dev ${version}`)}: ${basename(config)}, Postgres ${database.where}`,
        );
      const { databaseUrl: _, ...rest } = globals;
      const supervisor = new Supervisor({
        out,
        start: () =>
          runChild({ type: "run", globals: rest, config }, database.url, (serving) =>
            dashboard?.show(serving),
          ),
      });
      stop = () => {
        if (!stopped) out.note(say`Stopping: running attempts may finish. Ctrl-C again to hurry.`);
        stopped = true;
        supervisor.stop();
      };
      const unwatch = await watchCode(folder, (file) => supervisor.reload(file));
      try {
        return await supervisor.run();
      } finally {
        unwatch();
      }
    } finally {
      await dashboard?.close();
      await database.stop();
      forget();
    }
  });
}
