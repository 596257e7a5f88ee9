/**
 * A statement of `sql/`: its text, written against the schema `stint`, and its name. The name is also that of the
 * prepared statement, and is visible in `pg_stat_activity` and logs.
 */
export type Statement = {
  readonly name: string;
  readonly text: string;
  /** Return times and JSON as text: with all digits, with their length, and unparsed until needed. */
  readonly asText: boolean;
};

export function statement(name: string, text: string, { asText = false } = {}): Statement {
  return Object.freeze({ name, text: `/* stint:${name} */ ${text.trim()}`, asText });
}

/**
 * The text for one installation. SQL is written against `stint.`, so that it runs in psql unchanged; another schema
 * replaces that qualifier and nothing else. Callers check that schema names are plain identifiers. They are quoted all
 * the same: `user` is a plain identifier and a keyword.
 */
export function forSchema(text: string, schema: string): string {
  return text
    .replaceAll(/\bstint\.(?=[a-z%])/g, `"${schema}".`)
    .replaceAll(/\bschema (if not exists )?stint\b/g, `schema $1"${schema}"`);
}
