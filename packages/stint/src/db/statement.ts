/**
 * One query of `sql/`: its name (also its prepared-statement name, so `pg_stat_activity` and logs speak our
 * words) and its text, written against the schema `stint`.
 */
export type Statement = {
  readonly name: string;
  readonly text: string;
  /** Times and JSON come as text: with all their digits, with their length, and unread until somebody wants them. */
  readonly asText: boolean;
};

export function statement(name: string, text: string, { asText = false } = {}): Statement {
  return Object.freeze({ name, text: `/* stint:${name} */ ${text.trim()}`, asText });
}

/**
 * The text for one installation. SQL is written against `stint.` so that it reads, and runs in psql, as it
 * stands; another schema replaces that qualifier and nothing else. Schema names are checked to be plain
 * identifiers before they come here, and are quoted all the same (`user` is a plain identifier, too).
 */
export function forSchema(text: string, schema: string): string {
  return text
    .replaceAll(/\bstint\.(?=[a-z%])/g, `"${schema}".`)
    .replaceAll(/\bschema (if not exists )?stint\b/g, `schema $1"${schema}"`);
}
