import { compare, timesAsGood, withoutNode, type Against } from "./compare.ts";
import type { Row } from "./types.ts";

/** The rows of one scenario as a printed table, grouped by variant, with the ratio of Stint's default to each row. */
export function scenarioTable(name: string, what: string, rows: readonly Row[]): string {
  const groups = new Map<string, Row[]>();
  for (const row of rows) groups.set(groupOf(row), [...(groups.get(groupOf(row)) ?? []), row]);
  const blocks = [...groups].map(([group, members]) => block(group, members));
  return [`\n${name}: ${what}`, ...blocks].join("\n");
}

function groupOf(row: Row): string {
  return `${withoutNode(row.variant)}, ${row.unit}`;
}

function block(group: string, rows: readonly Row[]): string {
  const against = compare(rows);
  const lines = rows.map((row) => {
    const label = `${row.system}${row.variant === withoutNode(row.variant) ? "" : " (node 24)"}`;
    const range = row.n > 1 ? `[${number(row.min)} – ${number(row.max)}]` : "";
    const ratio =
      against.stint === undefined || row === against.stint
        ? ""
        : `stint ${timesAsGood(against.stint, row).toFixed(2)} ×`;
    return `    ${label.padEnd(18)}${row.config.padEnd(9)}${number(row.median).padStart(9)}  ${range.padEnd(20)} n=${row.n}  ${ratio}`;
  });
  return [`  ${group}`, ...lines.map((line) => line.trimEnd()), ...verdict(against)].join("\n");
}

function verdict({ stint, bestPostgres, bestRedis, ceiling }: Against): string[] {
  if (stint === undefined) return [];
  const parts = [
    bestPostgres &&
      `${timesAsGood(stint, bestPostgres).toFixed(2)} × the best Postgres peer (${bestPostgres.system} ${bestPostgres.config})`,
    bestRedis && `${timesAsGood(stint, bestRedis).toFixed(2)} × BullMQ on Redis (${bestRedis.config})`,
    ceiling && `${(timesAsGood(stint, ceiling) * 100).toFixed(0)} % of the ceiling`,
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? [] : [`    → stint default: ${parts.join(", ")}`];
}

function number(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: 4 });
}
