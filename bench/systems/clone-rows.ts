import type { Sql } from "./sql.ts";

export type CloneInput = {
  count: number;
  /** Tables that hold one row each, written by the system itself. A referencing table follows the table it references. */
  tables: Readonly<Record<string, Columns>>;
};

/** SQL for the columns that differ per copy; `n` counts from 1. */
type Columns = Readonly<Record<string, string>>;

/** Copy the one job that the system's own API created, and remove the original. */
export async function cloneRows(sql: Sql, { count, tables }: CloneInput): Promise<void> {
  const all = Object.entries(tables);
  for (const [index, [table]] of all.entries())
    await sql.run(`create temp table template_${index} as select * from ${table}`);
  for (const [table] of all.toReversed()) await sql.run(`delete from ${table}`);
  for (const [index, [table, columns]] of all.entries()) {
    const names = await columnsOf(sql, table);
    const values = names.map((name) => columns[name] ?? `t.${name}`);
    await sql.run(
      `insert into ${table} (${names.join(", ")}) select ${values.join(", ")} from template_${index} t, generate_series(1, $1) n`,
      [count],
    );
    await sql.run(`drop table template_${index}`);
  }
  await sql.run("vacuum analyze");
}

/** The writable columns. */
async function columnsOf(sql: Sql, table: string): Promise<string[]> {
  const rows = await sql.all<{ name: string }>(
    `select quote_ident(attname) as name from pg_attribute
     where attrelid = '${table}'::regclass and attnum > 0 and not attisdropped and attgenerated = '' and attidentity = ''`,
  );
  return rows.map(({ name }) => name);
}
