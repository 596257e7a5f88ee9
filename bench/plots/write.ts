import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Results } from "../core/types.ts";
import { chartsOf } from "./charts.ts";
import { draw } from "./draw.ts";

const longestLine = 135;

/** Draw the plots of a results file as SVG files next to it. Returns their paths. */
export async function writePlots(jsonFile: string): Promise<string[]> {
  const results = JSON.parse(await readFile(jsonFile, "utf8")) as Results;
  const legend = { date: results.date.slice(0, 10), footer: footerOf(results) };
  return await Promise.all(
    chartsOf(results).map(async (chart) => {
      const file = join(dirname(jsonFile), `${chart.name}.svg`);
      await writeFile(file, draw(chart, legend));
      return file;
    }),
  );
}

/** The machine and the versions. Figures cannot be interpreted without them. */
function footerOf({ machine, versions, rows }: Results): string[] {
  const most = Math.max(...rows.map((row) => row.n));
  const named = Object.entries(versions).map(([name, version]) =>
    name === "node 24" ? `node ${version} (peers, "node 24")` : `${name} ${version}`,
  );
  return [`${machine}. Medians of up to ${most} rounds in one run; lines are ranges.`, ...wrap(named)];
}

function wrap(parts: readonly string[]): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const last = lines.at(-1);
    if (last === undefined || last.length + part.length > longestLine) lines.push(part);
    else lines[lines.length - 1] = `${last}, ${part}`;
  }
  return lines;
}
