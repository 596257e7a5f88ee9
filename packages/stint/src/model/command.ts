/**
 * A command that somebody is advised to run, as it works in a shell: on this schema, and with names that others chose kept as
 * one word whatever they hold.
 */
export function command(schema: string, ...words: readonly string[]): string {
  const where = schema === "stint" ? [] : ["--schema", schema];
  return ["npx", "stint", ...words, ...where].map(shellWord).join(" ");
}

function shellWord(text: string): string {
  return /^[\w./:@=,+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
