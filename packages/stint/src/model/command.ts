/**
 * A command for advice texts, ready for a shell: for this schema, with every argument quoted, because names may contain any
 * character.
 */
export function command(schema: string, ...words: readonly string[]): string {
  const where = schema === "stint" ? [] : ["--schema", schema];
  return ["npx", "stint", ...words, ...where].map(shellWord).join(" ");
}

function shellWord(text: string): string {
  return /^[\w./:@=,+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
