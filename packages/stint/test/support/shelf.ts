import { inject } from "vitest";
import { query, testDatabaseUrl } from "./database.ts";

/**
 * Installations of finished tests, emptied for the next one. Creating and dropping one costs more than most tests, and
 * emptying it a tenth of that. Only schemas that are indistinguishable from a new one go on the shelf.
 */
export async function takeFromShelf(): Promise<string | undefined> {
  const [taken] = await query<{ schema: string }>(
    `delete from ${inject("shelf")}
     where schema = (select schema from ${inject("shelf")} limit 1 for update skip locked)
     returning schema`,
  );
  return taken?.schema;
}

/** Returns whether the schema went on the shelf. If not, the caller must drop it. */
export async function putOnShelf(schema: string, made: string): Promise<boolean> {
  if ((await fingerprint(schema)) !== made) return false;
  const tables = await query<{ name: string }>(
    `select relname as name
     from pg_class
     where relnamespace = $1::text::regnamespace and relkind = 'r' and relname <> 'migration'`,
    [schema],
  );
  const deletes = tables.map(({ name }) => `delete from "${schema}"."${name}";`);
  await query(`${deletes.join("\n")} select "${schema}".recount()`);
  await query(`insert into ${inject("shelf")} values ($1)`, [schema]);
  return true;
}

/**
 * The row versions of this schema in the system catalogs: any object that is created, altered, granted, analysed or dropped
 * changes it. Null if it is gone, if a session still uses it, or if it has grown, which would make the next test slow.
 */
export async function fingerprint(schema: string): Promise<string | null> {
  const [row] = await query<{ fingerprint: string | null }>(
    `with relation as materialized (
       select oid, xmin from pg_class where relnamespace = $1::text::regnamespace
     ), version (row) as (
       select 'schema ' || xmin from pg_namespace where oid = $1::text::regnamespace
       union all select format('relation %s %s', oid, xmin) from relation
       union all select format('column %s %s %s', r.oid, c.attnum, c.xmin) from relation r join pg_attribute c on c.attrelid = r.oid
       union all select format('default %s %s', r.oid, c.xmin) from relation r join pg_attrdef c on c.adrelid = r.oid
       union all select format('constraint %s %s', c.oid, c.xmin) from relation r join pg_constraint c on c.conrelid = r.oid
       union all select format('index %s %s', r.oid, c.xmin) from relation r join pg_index c on c.indexrelid = r.oid
       union all select format('trigger %s %s', c.oid, c.xmin) from relation r join pg_trigger c on c.tgrelid = r.oid
       union all select format('rule %s %s', c.oid, c.xmin) from relation r join pg_rewrite c on c.ev_class = r.oid
       union all select format('policy %s %s', c.oid, c.xmin) from relation r join pg_policy c on c.polrelid = r.oid
       union all select format('statistics %s %s', r.oid, c.xmin) from relation r join pg_statistic c on c.starelid = r.oid
       union all select format('function %s %s', oid, xmin) from pg_proc where pronamespace = $1::text::regnamespace
       union all select format('type %s %s', oid, xmin) from pg_type where typnamespace = $1::text::regnamespace
       union all select format('step %s %s', version, xmin) from "${schema}".migration
     )
     select md5(string_agg(row, ',' order by row)) as fingerprint
     from version
     where (select sum(pg_relation_size(oid)) < 8000000 from relation)
       and not exists (select from pg_locks where relation in (select oid from relation) and pid <> pg_backend_pid())
       -- A worker that was left behind would take the next test's jobs.
       and not exists (
         select from pg_stat_activity
         where pid <> pg_backend_pid() and application_name <> 'kept by a test' and strpos(query, $1) > 0
       )`,
    [schema],
  ).catch((error: { code?: string }) => {
    // The test dropped the schema or part of it. Any other error must surface: hidden, it would create a schema for every test.
    if (error.code === "3F000" || error.code === "42P01") return [];
    throw error;
  });
  return row?.fingerprint ?? null;
}

export function hasShelf(url: string): boolean {
  return url === testDatabaseUrl();
}
