import { query } from "../support/database.ts";

/** Everything a schema holds, as text that does not depend on the schema's name or on oids. */
export async function catalogOf(schema: string, url?: string): Promise<string[]> {
  const rows = await query<{ line: string }>(
    `with here as (select oid from pg_namespace where nspname = $1)
     select format('%s %s %s %s', relkind, relname, relpersistence, reloptions) as line
     from pg_class where relnamespace in (select oid from here)
     union all
     select format('column %s.%s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
     from pg_attribute a
     join pg_class c on c.oid = a.attrelid and c.relnamespace in (select oid from here)
     left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attnum > 0
     union all
     select format('constraint %s %s', conname, pg_get_constraintdef(oid)) from pg_constraint where connamespace in (select oid from here)
     union all
     select pg_get_indexdef(indexrelid) from pg_index i join pg_class c on c.oid = i.indexrelid and c.relnamespace in (select oid from here)
     union all
     select format('bound %s %s', relname, pg_get_expr(relpartbound, oid)) from pg_class where relispartition and relnamespace in (select oid from here)
     union all
     select format('view %s', pg_get_viewdef(oid)) from pg_class where relkind = 'v' and relnamespace in (select oid from here)
     union all
     select format('%s %s', pg_get_functiondef(oid), proacl) from pg_proc where pronamespace in (select oid from here) and prokind <> 'a'
     union all
     select format('enum %s %s', t.typname, e.enumlabel) from pg_enum e join pg_type t on t.oid = e.enumtypid and t.typnamespace in (select oid from here)`,
    [schema],
    url,
  );
  return rows
    .map(({ line }) =>
      line.replaceAll(`"${schema}"`, "S").replaceAll(new RegExp(`\\b${schema}\\b`, "g"), "S"),
    )
    .sort();
}
