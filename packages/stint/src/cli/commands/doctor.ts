import type { Command } from "commander";
import { requireConnection } from "../../db/connection.ts";
import type { Uses } from "../../doctor/check.ts";
import type { Report } from "../../doctor/doctor.ts";
import { toMs } from "../../model/duration.ts";
import { examples, runs } from "../command.ts";
import type { Context } from "../context.ts";
import { resultOf, showReport } from "../doctor/show.ts";
import { exitCodes } from "../report-error.ts";

type DoctorFlags = { strict?: boolean; patience?: string };

export function addDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .summary("what is wrong with the installation, and what to do about it");
  command.description(
    "Check the server, the schema, its tables, the sessions that block them, and the workers. Each finding has a fix.\n" +
      "It changes nothing. The exit code is 1 if there is an error, with --strict also if there is a warning.",
  );
  command
    .option("--strict", "exit with 1 on warnings, too")
    .option(
      "--patience <duration>",
      "how long a transaction or a lock may last before it is a finding (default 1m)",
    );
  examples(command, "stint doctor", "stint doctor --strict --json");
  runs<DoctorFlags>(command, async (context, { options }) => {
    const report = await examined(context, toMs(options.patience ?? "1m", "--patience"));
    if (context.out.json) context.out.document(asDocument(report));
    else showReport(context.out, report);
    const { error, warning } = report.counts;
    return error > 0 || (options.strict === true && warning > 0) ? exitCodes.failed : exitCodes.ok;
  });
}

async function examined(context: Context, patienceMs: number): Promise<Report> {
  const { examine } = await import("../../doctor/doctor.ts");
  const connection = requireConnection(
    context.globals.databaseUrl === undefined ? "DATABASE_URL" : "--database-url",
    await context.database(),
  );
  const client = await context.client();
  return await examine({
    connection,
    schema: await context.schema(),
    patienceMs,
    uses: await usesOf(context),
    kinds: async () => {
      const inspector = client.inspector({ connections: 1 });
      try {
        return await inspector.kinds();
      } finally {
        await inspector.close();
      }
    },
  });
}

/** What the config says of how it connects. The doctor must not need a config that works. */
async function usesOf(context: Context): Promise<Uses> {
  const options = (await context.config().catch(() => undefined))?.options;
  const wake = options?.wake;
  return { prepare: options?.prepare, notify: wake === undefined ? undefined : wake === "notify" };
}

function asDocument({ checks, counts }: Report): object {
  return {
    ok: counts.error === 0,
    counts,
    checks: checks.map((one) => ({ check: one.check, result: resultOf(one), seen: one.seen })),
    findings: checks.flatMap(({ check, findings }) => findings.map((finding) => ({ check, ...finding }))),
  };
}
