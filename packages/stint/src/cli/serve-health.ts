import { Option, type Command } from "commander";
import { InvalidOptionError } from "../errors.ts";
import { serveProbes, type HealthServer, type Probes } from "../health/server.ts";
import { integer } from "./command.ts";

export type HealthFlags = { readonly healthPort?: number; readonly healthHost: string };

export function addHealthOptions(command: Command): Command {
  return command
    .addOption(
      new Option("--health-port <port>", "serve /livez, /readyz, /startupz and /metrics on this port")
        .env("STINT_HEALTH_PORT")
        .argParser(integer),
    )
    .addOption(
      new Option("--health-host <host>", "the address of that server; 0.0.0.0 for probes from outside")
        .env("STINT_HEALTH_HOST")
        .default("127.0.0.1"),
    );
}

/** The health server, if the flags ask for one. */
export async function openHealth(
  probes: Probes,
  { healthPort: port, healthHost: host }: HealthFlags,
): Promise<HealthServer | undefined> {
  if (port === undefined) return undefined;
  return await serveProbes(probes, { port, host }).catch((error: unknown) => {
    const { code } = error as { code?: string };
    if (code === undefined || error instanceof InvalidOptionError) throw error;
    throw new InvalidOptionError("--health-port", `${port} cannot be had (${code}). Choose another`, {
      cause: error,
    });
  });
}
