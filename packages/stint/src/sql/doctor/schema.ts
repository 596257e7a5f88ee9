import type { Run } from "../../db/db.ts";
import { columns, number, readMany, text } from "../../db/row.ts";
import { statement, type Statement } from "../../db/statement.ts";

export type AppliedStep = { version: number; name: string; oldestCode: number; checksum: string };

const selectSteps = statement(
  "doctor-steps",
  `select version, name, oldest_code as "oldestCode", checksum from stint.migration order by version`,
);

const toStep = columns<AppliedStep>({ version: number, name: text, oldestCode: number, checksum: text });

export async function appliedSteps(db: Run): Promise<AppliedStep[]> {
  return await readMany(db, selectSteps, [], toStep);
}

const selectNamesake = statement(
  "doctor-namesake",
  `
  select r.rolname as role
  from pg_roles r
  where r.rolname = $1 and r.rolcanlogin
    and coalesce(
      (
        select substr(c.setting, length('search_path=') + 1)
        from pg_db_role_setting s, unnest(s.setconfig) c (setting)
        where starts_with(c.setting, 'search_path=')
          and s.setrole in (0, r.oid)
          and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
        order by s.setrole <> 0 desc, s.setdatabase <> 0 desc
        limit 1
      ),
      (select reset_val from pg_settings where name = 'search_path')
    ) ~ '^ *"?[$]user'`,
);

/** Whether a role has the name of the schema: its tables are then created in the schema by default ("$user" in search_path). */
export async function hasNamesake(db: Run, schema: string): Promise<boolean> {
  return (await db.run(selectNamesake, [schema])).length > 0;
}

/** One object of a schema: its description without the schema's name, and its definition. */
export type Thing = { what: string; definition: string };

/**
 * All objects of a schema, except the daily partitions, which come and go, and the grants, which differ by installation.
 */
export const selectThings: Statement = statement(
  "doctor-things",
  `
  with here as (select oid from pg_namespace where nspname = $1),
  relation as (
    select * from pg_class
    where relnamespace in (select oid from here) and relkind in ('r', 'p', 'v', 'm', 'i', 'I', 'S') and relname !~ '_[0-9]{8}(_|$)'
  )
  select 'table ' || relname as what, relpersistence::text as definition
  from relation where relkind in ('r', 'p')
  union all
  select 'storage settings of table ' || relname, array_to_string(array(select unnest(reloptions) order by 1), ', ')
  from relation where relkind = 'r'
  union all
  select 'view ' || relname, pg_get_viewdef(oid) from relation where relkind in ('v', 'm')
  union all
  select 'sequence ' || relname, '' from relation where relkind = 'S'
  union all
  select 'index ' || relname, pg_get_indexdef(oid) from relation where relkind in ('i', 'I')
  union all
  select 'bounds of partition ' || relname, pg_get_expr(relpartbound, oid) from relation where relispartition and relkind in ('r', 'p')
  union all
  select
    format('column %s.%s', r.relname, a.attname),
    concat_ws(' ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
      'default ' || pg_get_expr(d.adbin, d.adrelid), 'statistics ' || nullif(a.attstattarget, -1))
  from relation r
  join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where r.relkind in ('r', 'p')
  union all
  select format('constraint %s of table %s', c.conname, r.relname), pg_get_constraintdef(c.oid)
  from pg_constraint c join relation r on r.oid = c.conrelid
  union all
  select format('constraint %s of domain %s', c.conname, t.typname), pg_get_constraintdef(c.oid)
  from pg_constraint c join pg_type t on t.oid = c.contypid
  where t.typnamespace in (select oid from here)
  union all
  select format('trigger %s of table %s', t.tgname, r.relname), pg_get_triggerdef(t.oid)
  from pg_trigger t join relation r on r.oid = t.tgrelid
  where not t.tgisinternal
  union all
  select format('function %s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)), pg_get_functiondef(p.oid)
  from pg_proc p
  where p.pronamespace in (select oid from here) and p.prokind in ('f', 'p')
  union all
  select 'type ' || t.typname, string_agg(e.enumlabel, ', ' order by e.enumsortorder)
  from pg_enum e join pg_type t on t.oid = e.enumtypid
  where t.typnamespace in (select oid from here)
  group by t.typname`,
);

export const toThing = columns<Thing>({ what: text, definition: text });

export type BrokenIndex = { index: string; table: string; definition: string };

const selectBrokenIndexes = statement(
  "doctor-broken-indexes",
  `
  select i.relname as index, t.relname as table, pg_get_indexdef(x.indexrelid) as definition
  from pg_index x
  join pg_class i on i.oid = x.indexrelid
  join pg_class t on t.oid = x.indrelid
  join pg_namespace n on n.oid = t.relnamespace
  where n.nspname = $1 and not (x.indisvalid and x.indisready and x.indislive)
  order by 1`,
);

const toBrokenIndex = columns<BrokenIndex>({ index: text, table: text, definition: text });

/** Invalid indexes, which slow down writes and serve no reads, such as after a failed CREATE INDEX CONCURRENTLY. */
export async function brokenIndexes(db: Run, schema: string): Promise<BrokenIndex[]> {
  return await readMany(db, selectBrokenIndexes, [schema], toBrokenIndex);
}
