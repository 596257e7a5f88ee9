import { createHash } from "node:crypto";
import { readMigrations, type Migration } from "../../db/migrate.ts";
import { dbErrorCategory } from "../../db/sqlstate.ts";
import { appliedSteps, hasNamesake, type AppliedStep } from "../../sql/doctor/schema.ts";
import { migrateHint, schemaVersion } from "../../sql/schema-version.ts";
import type { Check } from "../check.ts";
import { error, note, warning, type Finding, type Seen } from "../finding.ts";

/** Whether the schema is the one this release was written for. */
export const schema: Check = {
  name: "schema",
  needsSchema: false,
  look: async ({ session, schema: name }) => {
    const applied = await appliedSteps(session).catch((caught: unknown) => {
      if (dbErrorCategory(caught) === "schema") return [];
      throw caught;
    });
    const seen = schemaRule({ schema: name, applied, steps: readMigrations() });
    if (!(await hasNamesake(session, name))) return seen;
    return { ...seen, findings: [...seen.findings, namesake(name)] };
  },
};

export type SchemaFacts = {
  schema: string;
  applied: readonly AppliedStep[];
  steps: readonly Pick<Migration, "version" | "name" | "text">[];
};

export function schemaRule({ schema: name, applied, steps }: SchemaFacts): Seen {
  const version = applied.at(-1)?.version;
  if (version === undefined) {
    const fix = `${migrateHint(name)}. If it is installed elsewhere, name it with --schema.`;
    return {
      absent: true,
      seen: "not installed",
      findings: [error("Stint is not installed here", `schema ${name} has no table migration`, fix)],
    };
  }
  const findings: Finding[] = [];
  if (version < schemaVersion)
    findings.push(
      error(
        "The schema is older than this release",
        `schema ${name} is at version ${version}, this release needs ${schemaVersion}`,
        `${migrateHint(name)}, then start the workers again.`,
      ),
    );
  const newest = steps.at(-1)?.version ?? schemaVersion;
  if (version > newest) findings.push(ahead(name, version, applied));
  const have = new Set(applied.map((step) => step.version));
  for (const step of steps) {
    const there = applied.find((one) => one.version === step.version);
    if (there === undefined && step.version < version)
      findings.push(
        error(
          "A migration is missing",
          `${step.version} ${step.name} is not applied, but a later one is`,
          `${migrateHint(name)}.`,
        ),
      );
    if (there !== undefined && there.checksum !== sha256(step.text))
      findings.push(
        warning(
          "A migration was applied with a text that differs from this release's",
          `${step.version} ${step.name}`,
          'See the check "drift". If it reports nothing, the difference does not matter.',
        ),
      );
  }
  return { seen: `schema ${name} at version ${version}, ${have.size} migrations`, findings };
}

function namesake(name: string): Finding {
  return warning(
    "A role has the name of Stint's schema",
    `the search_path of role ${name} begins with "$user", so tables it creates without naming a schema land in schema ${name}`,
    `As its owner: alter role "${name}" set search_path = public, "$user";`,
  );
}

function ahead(name: string, version: number, applied: readonly AppliedStep[]): Finding {
  const oldest = Math.max(...applied.map((step) => step.oldestCode));
  const what = `schema ${name} is at version ${version}, this release was written for ${schemaVersion}`;
  const fix = "Upgrade the stint package of this process.";
  return oldest > schemaVersion
    ? error("The schema is newer than this release and no longer supports it", what, fix)
    : note("The schema is newer than this release, and still supports it", what, fix);
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
