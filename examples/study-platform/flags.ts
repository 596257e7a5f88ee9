import { parseArgs } from "node:util";

const usage = `Usage: npm start -- [options]

A small study platform with six queues, on a real Postgres, with everything that can happen to a job.

  --seconds N   stop after N seconds (default: run until Ctrl-C)
  --log FILE    write the structured log (JSON lines) to FILE
  -h, --help    show this

DATABASE_URL    use this Postgres instead of an embedded one; only schemas stint_demo and study_demo are touched

Ctrl-C drains: running jobs are finished, nothing new is taken. A second Ctrl-C releases them at once.
Exit code: 0 if every enqueued job is accounted for, 1 if not, 2 for flags that cannot work.
`;

export type Flags = { readonly seconds: number | undefined; readonly log: string | undefined };

/** The parsed command line. Exits the process after --help or an invalid option. */
export function readFlags(args: string[]): Flags {
  try {
    const { values } = parseArgs({
      args,
      options: {
        seconds: { type: "string" },
        log: { type: "string" },
        help: { type: "boolean", short: "h" },
      },
    });
    if (values.help === true) {
      process.stdout.write(usage);
      return process.exit(0);
    }
    return { seconds: readSeconds(values.seconds), log: values.log };
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${usage}`);
    return process.exit(2);
  }
}

function readSeconds(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const seconds = Number(text);
  if (/^\d+(\.\d+)?$/.test(text) && seconds > 0 && seconds <= 86_400) return seconds;
  throw new Error(`--seconds must be a number from 1 to 86400, got "${text}"`);
}
