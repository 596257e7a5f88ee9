import { afterAll, beforeAll } from "vitest";
import type { Uses } from "#stint/doctor/check.js";
import { checks } from "#stint/doctor/checks.js";
import { examine, type Report } from "#stint/doctor/doctor.js";
import type { Finding } from "#stint/doctor/finding.js";
import type { KindView } from "#stint/inspect/types.js";
import type { Fresh } from "../support/fresh.ts";
import { ownServer, type OwnServer } from "../support/own-server.ts";

/** A server set up as one would in production, so that a healthy installation on it is green. */
export function healthyServer(settings: Record<string, string> = {}): {
  url: () => string;
  port: () => number;
} {
  let server: OwnServer | undefined;
  beforeAll(async () => {
    server = await ownServer({
      fsync: "on",
      max_prepared_transactions: "5",
      idle_in_transaction_session_timeout: "10min",
      ...settings,
    });
  });
  afterAll(async () => {
    await server?.remove();
  });
  const running = (): OwnServer => {
    if (server === undefined) throw new Error("the server runs within tests only");
    return server;
  };
  return { url: () => running().url, port: () => running().port };
}

export type Look = {
  url?: string;
  patienceMs?: number;
  kinds?: readonly KindView[];
  uses?: Uses;
};

/** The report of every check. */
export async function lookAt(fresh: Pick<Fresh, "url" | "schema">, look: Look = {}): Promise<Report> {
  return await examine(optionsOf(fresh, look));
}

/** The findings of one check alone: the whole report installs Stint once more, to compare. */
export async function findingsOf(
  fresh: Pick<Fresh, "url" | "schema">,
  name: string,
  look: Look = {},
): Promise<readonly Finding[]> {
  const which = checks.filter((check) => check.name === name);
  return of(await examine(optionsOf(fresh, look), which), name);
}

function optionsOf(fresh: Pick<Fresh, "url" | "schema">, look: Look): Parameters<typeof examine>[0] {
  return {
    connection: look.url ?? fresh.url,
    schema: fresh.schema,
    kinds: async () => await Promise.resolve(look.kinds ?? []),
    patienceMs: look.patienceMs ?? 60_000,
    uses: look.uses ?? { prepare: true, notify: true },
  };
}

/** The findings of one check of a report. */
export function of(report: Report, check: string): readonly Finding[] {
  const found = report.checks.find((one) => one.check === check);
  if (found === undefined) throw new Error(`there was no check ${check}`);
  return found.findings;
}

/** Everything that was found, in short. */
export function all(report: Report): string[] {
  return report.checks.flatMap(({ check, findings }) =>
    findings.map(({ level, title, what }) => `${check}: ${level}: ${title}: ${what}`),
  );
}
