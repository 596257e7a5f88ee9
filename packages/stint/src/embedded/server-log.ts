import { readFile } from "node:fs/promises";

/** The line of a Postgres log that most likely has the reason for its end. */
export async function lastWords(file: string): Promise<string> {
  const lines = (await readFile(file, "utf8").catch(() => ""))
    .split("\n")
    .filter((line) => line.trim() !== "");
  const reason = lines.findLast((line) => /FATAL|PANIC|error:/i.test(line)) ?? lines.at(-1);
  return reason?.trim() ?? `nothing in ${file}`;
}
