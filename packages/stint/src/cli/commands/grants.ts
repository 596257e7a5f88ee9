import { Argument, type Command } from "commander";
import { InvalidOptionError } from "../../errors.ts";
import { checkText } from "../../model/names.ts";
import { grantRoles, grantSql, type GrantRole } from "../../sql/grants.ts";
import { examples, runs } from "../command.ts";
import type { Context } from "../context.ts";

export function addGrants(program: Command): void {
  const command = program.command("grants").summary("print the rights that a database role needs");
  command
    .description(
      "Print a script with the minimal grants of a database role. The owner of the schema runs it.",
    )
    .addArgument(new Argument("<rights>", "what the role is for").choices(grantRoles))
    .requiredOption("--role <name>", "the role that gets them; it must exist")
    .option("--database <name>", "for owner: the database (default: the one this command would work on)");
  examples(
    command,
    'stint grants worker --role app_worker | psql "$DATABASE_URL"',
    "stint grants read --role metrics --schema billing_jobs",
  );
  runs<{ role: string; database?: string }>(command, async (context, { options, args: [rights = ""] }) => {
    const role = checkText(options.role, "--role", { max: 63 });
    const schema = await context.schema();
    const database = rights === "owner" ? await databaseName(options.database, context) : "";
    const text = grantSql(rights as GrantRole, { role, database, schema });
    if (context.out.json) context.out.document({ rights, role, schema, sql: text });
    else context.out.script(text);
  });
}

async function databaseName(given: string | undefined, context: Context): Promise<string> {
  if (given !== undefined) return checkText(given, "--database", { max: 63 });
  const database = (await context.findDatabase()) ?? {};
  const name = typeof database === "string" ? nameIn(database) : (database.database ?? "");
  if (name !== "") return name;
  throw new InvalidOptionError(
    "--database",
    "is needed for owner: name the database in which it creates the schema",
  );
}

function nameIn(url: string): string {
  return URL.canParse(url) ? decodeURIComponent(new URL(url).pathname.slice(1)) : "";
}
