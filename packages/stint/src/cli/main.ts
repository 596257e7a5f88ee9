import { Command, CommanderError } from "commander";
import { version } from "../version.ts";
import { seeHelp } from "./command.ts";
import { addAutoscale } from "./commands/autoscale.ts";
import { addCompleteValues, addCompletion } from "./commands/completion.ts";
import { addDashboard } from "./commands/dashboard.ts";
import { addDead } from "./commands/dead.ts";
import { addDev } from "./commands/dev.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addEnqueue } from "./commands/enqueue.ts";
import { addExport } from "./commands/export.ts";
import { addFlows } from "./commands/flows.ts";
import { addGrants } from "./commands/grants.ts";
import { addJobs } from "./commands/jobs.ts";
import { addDependencies } from "./commands/dependencies.ts";
import { addTenants } from "./commands/tenants.ts";
import { addLimits } from "./commands/limits.ts";
import { addScale } from "./commands/scale.ts";
import { addMigrate } from "./commands/migrate.ts";
import { addPause, addPauses, addResume } from "./commands/pauses.ts";
import { addQueues } from "./commands/queues.ts";
import { addSchedules } from "./commands/schedules.ts";
import { addSignal } from "./commands/signal.ts";
import { addStats } from "./commands/stats.ts";
import { addTop } from "./commands/top.ts";
import { addWorker } from "./commands/worker.ts";
import { addWorkers } from "./commands/workers.ts";
import { Output } from "./output.ts";
import { exitCodes, reportError, UsageError } from "./report-error.ts";

const helpAfter = `
The database is --database-url, else DATABASE_URL, else \`database\` in stint.config.ts, else the Postgres of
a \`stint dev\` that runs in this folder. Prefer DATABASE_URL: other users can read command lines.

Exit codes: 0 done, 1 failed, 2 wrong usage (command line, config, kind or payload; nothing was changed).`;

/** Run one command line. Resolves with the exit code, when everything is written. */
export async function main(args: readonly string[]): Promise<number> {
  try {
    await program().parseAsync([...args], { from: "user" });
  } catch (error) {
    process.exitCode = endOf(error, args);
  }
  const code = process.exitCode ?? exitCodes.ok;
  await Promise.all([process.stdout, process.stderr].map(written));
  return Number(code);
}

const flowing = (text: string): string => text.replaceAll("\n", " ");

function program(): Command {
  const program = new Command("stint")
    .description("Background work you can trust, on the Postgres you already run.")
    .version(version, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    .helpCommand("help [command]", "print the help of a command")
    .option("--database-url <url>", "the database to work on")
    .option("--schema <name>", 'the schema of the installation (default "stint")')
    .option("--config <path>", "the config file (default stint.config.ts, .js or .mjs in this folder)")
    .option(
      "--json",
      "print JSON: one document, or a line per event from worker, autoscale, dev and jobs tail",
    )
    .option("--no-color", "no colours (NO_COLOR does the same)")
    .option("--verbose", "print stacks of errors (STINT_DEBUG=1 does the same)")
    .addHelpText("after", helpAfter)
    .configureHelp({
      showGlobalOptions: true,
      // Descriptions are wrapped to the terminal, wherever their lines end in the code.
      commandDescription: (command) => flowing(command.description()),
      subcommandDescription: (command) => flowing(command.summary() || command.description()),
    })
    // Errors are written by us, once, and made safe.
    .configureOutput({ outputError: () => undefined });
  for (const add of [
    addDev,
    addWorker,
    addMigrate,
    addEnqueue,
    addSignal,
    addJobs,
    addDead,
    addTop,
    addStats,
    addQueues,
    addPause,
    addResume,
    addPauses,
    addSchedules,
    addWorkers,
    addDashboard,
    addFlows,
    addLimits,
    addDependencies,
    addTenants,
    addScale,
    addAutoscale,
    addGrants,
    addExport,
    addDoctor,
    addCompletion,
    addCompleteValues,
  ]) {
    add(program);
  }
  tellWhichFailed(program);
  return program;
}

/** Commander's errors do not name their command. */
function tellWhichFailed(command: Command): void {
  command.exitOverride((error) => {
    throw Object.assign(error, { hints: [...usageOf(error, command), seeHelp(command)] });
  });
  for (const child of command.commands) tellWhichFailed(child);
}

/** The usage line shows the number and the order of the arguments. */
function usageOf({ code }: CommanderError, command: Command): string[] {
  const isAboutArguments = /^commander\.(?:missing|excess|invalid)Argument/.test(code);
  return isAboutArguments ? [`Usage: ${command.createHelp().commandUsage(command)}`] : [];
}

/** Commander ends by throwing: for help and the version, which are no errors, too. */
function endOf(error: unknown, args: readonly string[]): number {
  const out = new Output({ json: args.includes("--json"), color: !args.includes("--no-color") });
  const verbose = args.includes("--verbose");
  if (!(error instanceof CommanderError)) return reportError(error, { out, verbose });
  if (error.exitCode === 0) return exitCodes.ok;
  // A group without its command: the help is already on standard error.
  if (error.code === "commander.help") return exitCodes.usage;
  const message = error.message
    .replace(/^error: /, "")
    .replace(/^command-argument value ('.*') is invalid for argument '(.*?)'\./s, "$1 is no <$2>.");
  const { hints = [] } = error as CommanderError & { hints?: readonly string[] };
  return reportError(new UsageError(message), { out, verbose, hints });
}

async function written(stream: NodeJS.WriteStream): Promise<void> {
  await new Promise<void>((resolve) => {
    stream.write("", () => resolve());
  });
}
