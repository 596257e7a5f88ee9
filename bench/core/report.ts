import { readFile, writeFile } from "node:fs/promises";
import { scenarios } from "../scenarios/index.ts";
import { scenarioTable } from "./table.ts";
import type { Results } from "./types.ts";

/** Write the tables of a run next to its results, for readers without a terminal. Returns the path. */
export async function writeReport(jsonFile: string): Promise<string> {
  const { machine, date, versions, rows } = JSON.parse(await readFile(jsonFile, "utf8")) as Results;
  const file = jsonFile.replace(/\.json$/, ".md");
  const tables = scenarios.flatMap(({ name, what }) => {
    const own = rows.filter((row) => row.scenario === name);
    return own.length === 0 ? [] : [scenarioTable(name, what, own).trim()];
  });
  const head = [
    "# Results",
    `${date.slice(0, 10)}, ${machine}. ${Object.entries(versions)
      .map(([name, version]) => `${name} ${version}`)
      .join(", ")}.`,
    "Made by `npm run bench`. Client, workers and server share the machine: ratios mean something, absolute figures little.",
  ];
  await writeFile(
    file,
    `${[...head, ...tables.map((table) => `\`\`\`text\n${table}\n\`\`\``)].join("\n\n")}\n`,
  );
  return file;
}
