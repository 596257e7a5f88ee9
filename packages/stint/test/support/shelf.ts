import { setTimeout as sleep } from "node:timers/promises";
import { inject } from "vitest";
import { query, testDatabaseUrl } from "./database.ts";

/** An empty installation. `fingerprint`: as it was new; null if it must not be used again. */
export type Shelved = { readonly schema: string; readonly fingerprint: string | null };

/**
 * Installations of finished tests, emptied for the next one. Creating and dropping one costs more than most tests, and
 * emptying it a tenth of that. Only schemas that are indistinguishable from a new one go on the shelf.
 */
export async function takeFromShelf(): Promise<Shelved | undefined> {
  const [taken] = await query<Shelved>(
    `delete from ${inject("shelf")}
     where schema = (
       -- Yesterday's schemas lack the partition of the last day ahead.
       select schema from ${inject("shelf")} where fingerprint like '%' || current_date limit 1 for update skip locked
     )
     returning schema, fingerprint`,
  );
  return taken;
}

/** Returns whether the schema went on the shelf. If not, the caller must drop it. */
export async function putOnShelf({ schema, fingerprint: made }: Shelved): Promise<boolean> {
  if (made === null || !(await isUnused(schema)) || (await fingerprint(schema)) !== made) return false;
  const tables = await query<{ name: string }>(
    `select c.relname as name
     from pg_depend d
     join pg_class c on c.oid = d.objid
     where d.refclassid = 'pg_namespace'::regclass and d.refobjid = $1::text::regnamespace
       and d.classid = 'pg_class'::regclass and c.relkind = 'r' and c.relname <> 'migration'
     -- Rows that refer to others go first.
     order by not exists (select from pg_constraint k where k.conrelid = c.oid and k.contype = 'f')`,
    [schema],
  );
  const deletes = tables.map(({ name }) => `delete from "${schema}"."${name}";`);
  await query(`${deletes.join("\n")} select "${schema}".recount()`);
  await query(`insert into ${inject("shelf")} values ($1, $2)`, [schema, made]);
  return true;
}

/**
 * Whether no session uses this schema, nor may begin to. A closed connection is still listed for a moment, on a busy machine for longer:
 * waiting for its end costs less than a new schema. A session without a statement may be that of a killed process, whose first one is on its way.
 */
export async function isUnused(schema: string): Promise<boolean> {
  for (const pauseMs of [10, 50, 200, 500, 1_000, 0]) {
    const users = await query(
      `select from pg_stat_activity
       where pid <> pg_backend_pid() and backend_type = 'client backend' and application_name <> 'kept by a test'
         and (query = '' or strpos(query, $1) > 0)
       limit 1`,
      [schema],
      undefined,
      "users of a schema",
    );
    if (users.length === 0) return true;
    await sleep(pauseMs);
  }
  return false;
}

/**
 * The row versions of this schema in the system catalogs: any object that is created, altered, granted, analysed or dropped
 * changes it. Null if it is gone, if a session still uses it, or if it has grown, which would make the next test slow.
 *
 * Objects are found by their dependency on the schema. The catalogs have no index on the schema alone, and after hundreds of
 * dropped schemas reading them whole takes longer than most tests. Prepared, because planning takes longer than running it.
 */
export async function fingerprint(schema: string): Promise<string | null> {
  try {
    const [row] = await query<{ fingerprint: string | null }>(
      `with object as materialized (
         select classid, objid
         from pg_depend
         where refclassid = 'pg_namespace'::regclass and refobjid = $1::text::regnamespace
       ), own as materialized (
         select c.oid, c.xmin, c.relkind
         from object o
         join pg_class c on c.oid = o.objid
         where o.classid = 'pg_class'::regclass
       ), index as materialized (
         select i.indexrelid as oid, i.xmin from own r join pg_index i on i.indrelid = r.oid
       ), relation as materialized (
         select oid from own union all select oid from index
       ), version (what, oid, part, xmin) as (
         select 'schema', oid, 0, xmin from pg_namespace where oid = $1::text::regnamespace
         union all select 'relation', oid, 0, xmin from own
         union all select 'index', oid, 0, xmin from index
         union all select 'index relation', c.oid, 0, c.xmin from index r join pg_class c on c.oid = r.oid
         union all select 'column', r.oid, c.attnum, c.xmin from relation r join pg_attribute c on c.attrelid = r.oid
         union all select 'default', r.oid, c.adnum, c.xmin from own r join pg_attrdef c on c.adrelid = r.oid
         union all select 'constraint', c.oid, 0, c.xmin from own r join pg_constraint c on c.conrelid = r.oid
         union all select 'trigger', c.oid, 0, c.xmin from own r join pg_trigger c on c.tgrelid = r.oid
         union all select 'rule', c.oid, 0, c.xmin from own r join pg_rewrite c on c.ev_class = r.oid
         union all select 'policy', c.oid, 0, c.xmin from own r join pg_policy c on c.polrelid = r.oid
         union all select 'statistics', r.oid, c.staattnum, c.xmin from relation r join pg_statistic c on c.starelid = r.oid
         union all
         select 'function', c.oid, 0, c.xmin
         from object o
         join pg_proc c on c.oid = o.objid
         where o.classid = 'pg_proc'::regclass
         union all
         select 'type', c.oid, 0, c.xmin
         from object o
         join pg_type c on c.oid = o.objid
         where o.classid = 'pg_type'::regclass
         -- Operators, collations and other objects that the installation has none of.
         union all
         select 'other ' || classid, objid, 0, null
         from object
         where classid not in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_type'::regclass)
       )
       -- Without rows the sum is null, and so is the whole. A sum needs no order, which would take as long as all else.
       select count(*) || ' ' || sum(hash_record_extended(version, 0)) as fingerprint
       from version
       where (select sum(pg_relation_size(oid)) < 8000000 from relation)
         and not exists (select from pg_locks where relation in (select oid from relation) and pid <> pg_backend_pid())
         -- A worker that was left behind would take the next test's jobs.
         and not exists (
           select from pg_stat_activity
           where pid <> pg_backend_pid() and application_name <> 'kept by a test' and strpos(query, $1) > 0
         )`,
      [schema],
      undefined,
      "fingerprint",
    );
    if (row?.fingerprint == null) return null;
    const [steps] = await query<{ steps: string; day: string }>(
      `select string_agg(concat_ws(' ', version, xmin), ',' order by version) as steps, current_date::text as day
       from "${schema}".migration`,
    );
    return `${row.fingerprint} ${steps?.steps} ${steps?.day}`;
  } catch (error) {
    // The test dropped the schema or part of it. Any other error must surface: hidden, it would create a schema for every test.
    const { code } = error as { code?: string };
    if (code === "3F000" || code === "42P01") return null;
    throw error;
  }
}

export function hasShelf(url: string): boolean {
  return url === testDatabaseUrl();
}
