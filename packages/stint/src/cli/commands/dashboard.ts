import { readFile } from "node:fs/promises";
import type { Command } from "commander";
import type { DashboardConfig } from "../../config.ts";
import { InvalidOptionError } from "../../errors.ts";
import { isLoopback } from "../../health/host.ts";
import { jsonLogger } from "../../runtime/logger.ts";
import { examples, integer, runs } from "../command.ts";
import { deferred } from "../deferred.ts";
import { dashboardPort, installHint, loadDashboard, type DashboardModule } from "../load-dashboard.ts";
import { say } from "../output.ts";
import { UsageError } from "../report-error.ts";
import { onStopSignals } from "../stop-signals.ts";

type Options = {
  port: number;
  host: string;
  tokenFile?: string;
  environment?: string;
  production?: boolean;
};

const tokenVariable = "STINT_DASHBOARD_TOKEN";

export function addDashboard(program: Command): void {
  const command = program.command("dashboard").summary("serve the dashboard");
  command
    .description(
      "Serve the dashboard until SIGTERM or SIGINT. Without a token it serves this machine only. With one, browsers\n" +
        "ask for a password: enter the token, with any user name, which is recorded in the audit. Programs send it as a bearer token.",
    )
    .option("--port <number>", "the port to listen on; 0 chooses a free one", integer, dashboardPort)
    .option("--host <address>", "the address to listen on", "127.0.0.1")
    .option("--token-file <path>", `read the token from this file (else ${tokenVariable}, if it is set)`)
    .option("--environment <name>", "shown as a badge, so that environments are not confused")
    .option("--production", "bulk operations must be confirmed by typing the environment's name");
  examples(
    command,
    "stint dashboard",
    "stint dashboard --host 0.0.0.0 --token-file /run/secrets/stint --environment live --production",
  );
  runs<Options>(command, async (context, { options }) => {
    const { port, host } = options;
    if (port < 0 || port > 65_535) throw new InvalidOptionError("--port", "must be from 0 to 65535");
    const token = await tokenOf(options);
    if (token === undefined && !isLoopback(host)) {
      throw new InvalidOptionError(
        "--host",
        `is open to other machines, so a token is needed: set ${tokenVariable} or pass --token-file`,
      );
    }
    const module = await loadDashboard();
    if (module === undefined)
      throw new UsageError(`The dashboard is not installed. Install it with \`${installHint}\`.`);

    // Not done without where it is broken: what it hides would be shown.
    const config = await context.config();
    const environment = environmentOf(options, config?.dashboard.environment);
    const dashboard = module.createDashboard({
      ...config?.dashboard,
      stint: await context.client(),
      logger: jsonLogger(),
      ...(token === undefined ? {} : { authorize: withToken(module, token) }),
      ...(environment === undefined ? {} : { environment }),
    });
    const stop = deferred();
    const forget = onStopSignals(() => stop.resolve());
    try {
      const server = await module.serveDashboard(dashboard, { port, host });
      if (context.out.json) context.out.event({ event: "dashboard", url: server.url });
      else context.out.line(say`The dashboard is at ${server.url}`);
      await stop.promise;
      await server.close();
    } finally {
      await dashboard.close();
      forget();
    }
  });
}

/** Flags go before the config, but none takes away that this is production: bulk operations would no longer be confirmed. */
function environmentOf(
  flags: Options,
  config: DashboardConfig["environment"],
): DashboardConfig["environment"] {
  const name = flags.environment ?? config?.name;
  const production = flags.production === true || config?.production === true;
  if (name !== undefined) return { name, production };
  if (production)
    throw new InvalidOptionError("--production", "needs --environment, whose name is typed to confirm");
  return undefined;
}

async function tokenOf({ tokenFile }: Options): Promise<string | undefined> {
  if (tokenFile === undefined) {
    const token = process.env[tokenVariable];
    return token === undefined || token === "" ? undefined : token;
  }
  const token = await readFile(tokenFile, "utf8").catch((error: unknown) => {
    throw new InvalidOptionError("--token-file", "cannot be read", { cause: error });
  });
  if (token.trim() === "") throw new InvalidOptionError("--token-file", "is empty");
  return token.trim();
}

function withToken({ anyOf, bearer, basic }: DashboardModule, token: string): ReturnType<typeof anyOf> {
  return anyOf(basic({ password: token }), bearer(token));
}
