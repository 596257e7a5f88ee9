import { plural } from "../../model/figures.ts";
import { randomBytes } from "node:crypto";
import { migrationSql, readMigrations } from "../../db/migrate.ts";
import { readMany, readRows } from "../../db/row.ts";
import type { Session } from "../../db/session.ts";
import { forSchema } from "../../db/statement.ts";
import { command } from "../../model/command.ts";
import { appliedSteps, selectThings, toThing, type Thing } from "../../sql/doctor/schema.ts";
import { migrateHint } from "../../sql/schema-version.ts";
import type { Check } from "../check.ts";
import { error, note, warning, type Finding, type Seen } from "../finding.ts";
import { quoteName } from "../../db/quote.ts";

/**
 * What is installed against what the migrations make. They are run once more, under another name, in a transaction of which
 * nothing stays; so what they should make never has to be written down a second time.
 */
export const drift: Check = {
  name: "drift",
  needsSchema: true,
  look: async ({ session, schema }) => {
    const version = (await appliedSteps(session)).at(-1)?.version ?? 0;
    const newest = readMigrations().at(-1)?.version ?? 0;
    if (version !== newest) return otherVersion(version, newest, schema);
    return driftRule(await thingsOf(session, schema), await thingsOfMigrations(session), schema);
  },
};

function otherVersion(version: number, newest: number, schema: string): Seen {
  const what = `the schema is at version ${version}; this release knows what ${newest} looks like`;
  const fix = `${migrateHint(schema)}, or run the doctor of the release that installed it.`;
  return { seen: "not compared", findings: [note("The schema could not be compared", what, fix)] };
}

async function thingsOf(session: Session, schema: string): Promise<Thing[]> {
  const things = await readMany(session, selectThings, [schema], toThing);
  return things.map((thing) => asInStint(thing, schema));
}

async function thingsOfMigrations(session: Session): Promise<Thing[]> {
  const scratch = `stint_doctor_${randomBytes(6).toString("hex")}`;
  // Each step brings its own transaction; here all of them share one that is rolled back.
  const script = (await migrationSql(scratch)).replaceAll(/^(?:begin|commit);$/gm, "");
  const rows = await session.afterScript(script, selectThings, [scratch]);
  return readRows(selectThings, rows, toThing).map((thing) => asInStint(thing, scratch));
}

/** As if it were installed in `stint`. The names of schemas are checked to be plain, so they need no escaping here. */
function asInStint({ what, definition }: Thing, schema: string): Thing {
  const qualifier = new RegExp(`(?<!\\w)"?${schema}"?\\.`, "g");
  return {
    what: what.replaceAll(qualifier, ""),
    definition: (definition ?? "").replaceAll(qualifier, "stint."),
  };
}

export function driftRule(installed: readonly Thing[], expected: readonly Thing[], schema: string): Seen {
  const there = new Map(installed.map((thing) => [thing.what, thing.definition]));
  const wanted = new Map(expected.map((thing) => [thing.what, thing.definition]));
  const findings: Finding[] = [];
  for (const [what, definition] of wanted) {
    const found = there.get(what);
    if (found === undefined) findings.push(missing(what, definition, schema));
    else if (found !== definition) findings.push(changed(what, found, definition, schema));
  }
  for (const what of there.keys()) if (!wanted.has(what)) findings.push(added(what));
  return { seen: `${plural(expected.length, "definition")} compared`, findings };
}

function missing(what: string, definition: string, schema: string): Finding {
  if (!what.startsWith("index ")) {
    const print = `Print what the migrations make with \`${command(schema, "migrate", "--sql")}\``;
    return error("Part of the schema is missing", what, `${print}, and run the part that is missing.`);
  }
  return error("An index is missing", what, indexAgain(forSchema(definition, schema)));
}

/** An index of a partitioned table cannot be made while others write. */
function indexAgain(definition: string): string {
  const [, unique = "", name = "", only = "", rest = ""] =
    /^CREATE (UNIQUE )?INDEX (\S+) ON (ONLY )?(.*)$/s.exec(definition) ?? [];
  return only === ""
    ? `Make it again, without holding up writes: create ${unique}index concurrently ${name} on ${rest};`
    : `Make it again, which holds up writes meanwhile: create ${unique}index ${name} on ${rest};`;
}

function changed(what: string, found: string, definition: string, schema: string): Finding {
  const table = /^storage settings of table (.+)$/.exec(what)?.[1];
  if (table !== undefined) return storage({ table, found, definition, schema });
  const short = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}…` : text);
  const isFunction = what.startsWith("function ");
  return error(
    "Part of the schema was changed",
    isFunction ? what : `${what} is "${short(found)}"`,
    isFunction
      ? `Put it back: print it with \`${command(schema, "migrate", "--sql")}\`, and run it with create or replace function.`
      : `The migrations make it "${short(definition)}". Put it back.`,
  );
}

type Storage = { table: string; found: string; definition: string; schema: string };

function storage({ table, found, definition, schema }: Storage): Finding {
  const wanted = definition === "" ? [] : definition.split(", ");
  const had = found === "" ? [] : found.split(", ");
  const names = had.filter((one) => !wanted.includes(one)).map((one) => one.split("=")[0] ?? "");
  const toReset = names.filter((name) => !wanted.some((one) => one.startsWith(`${name}=`)));
  const toSet = wanted.filter((one) => !had.includes(one));
  const parts = [
    ...(toSet.length > 0 ? [`set (${toSet.join(", ")})`] : []),
    ...(toReset.length > 0 ? [`reset (${toReset.join(", ")})`] : []),
  ];
  return warning(
    "Storage settings of a table were changed",
    `table ${table} has ${found === "" ? "none" : found}`,
    `Put them back: alter table ${quoteName(schema, table)} ${parts.join(", ")};`,
  );
}

function added(what: string): Finding {
  const costs = what.startsWith("index ") || what.startsWith("trigger ");
  return note(
    "The schema holds an object that Stint did not create",
    what,
    costs
      ? "Every enqueue and settle pays for it. Drop it unless you need it."
      : "Nothing need be done if you created it.",
  );
}
