/** Names in SQL that people are told to paste, often as superuser: whatever a name holds stays within it. */
export function named(schema: string, object: string): string {
  return `${quoted(schema)}.${quoted(object)}`;
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
