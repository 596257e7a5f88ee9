import { dbErrorCategory } from "../db/sqlstate.ts";
import { Session } from "../db/session.ts";
import type { Connection } from "../db/connection.ts";
import { maskUrl } from "../runtime/mask.ts";
import type { Check, Subject } from "./check.ts";
import { checks } from "./checks.ts";
import { note, type Checked, type Finding, type Level } from "./finding.ts";

export type Report = {
  readonly checks: readonly Checked[];
  readonly counts: Readonly<Record<Level, number>>;
};

export type ExamineOptions = Pick<Subject, "schema" | "kinds" | "patienceMs" | "uses"> & {
  readonly connection: Connection;
};

/**
 * Run every check, or those of `which`, one after the other, and change nothing. A check that fails is reported and does not stop the
 * others.
 *
 * @throws {DatabaseUnavailableError} There is no connection at all.
 */
export async function examine(options: ExamineOptions, which: readonly Check[] = checks): Promise<Report> {
  const { connection, schema, ...rest } = options;
  const open = async (): Promise<Session> =>
    await Session.open({ connection, schema, applicationName: "stint doctor" });
  const session = await open();
  try {
    return await examineOn({ ...rest, schema, session, open }, which);
  } finally {
    await session.end();
  }
}

async function examineOn(subject: Subject, which: readonly Check[]): Promise<Report> {
  const done: Checked[] = [];
  let installed = true;
  for (const check of which) {
    if (check.needsSchema && !installed) continue;
    const seen = await checked(check, subject);
    done.push(seen);
    if (seen.absent === true) installed = false;
  }
  return { checks: done, counts: count(done.flatMap((one) => one.findings)) };
}

async function checked(check: Check, subject: Subject): Promise<Checked> {
  try {
    return { check: check.name, ...(await check.look(subject)) };
  } catch (error) {
    return { check: check.name, seen: "could not be examined", findings: [undone(check.name, error)] };
  }
}

function undone(name: string, error: unknown): Finding {
  const message = maskUrl(error instanceof Error ? error.message : String(error));
  const refused = (error as { code?: unknown } | null)?.code === "42501";
  const fix = refused
    ? "Run it as the owner of the schema, or as a role that is a member of pg_monitor."
    : dbErrorCategory(error) === "connection"
      ? "Run it again. If it fails again, read the server's log."
      : "Run it again with --verbose, and report it if it fails again.";
  return note(`The check "${name}" failed`, message, fix);
}

function count(findings: readonly Finding[]): Record<Level, number> {
  const of = (level: Level): number => findings.filter((finding) => finding.level === level).length;
  return { error: of("error"), warning: of("warning"), note: of("note") };
}
