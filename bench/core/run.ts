import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { Collected } from "./collect.ts";
import { runCell, type Ground } from "./cell.ts";
import { planScenario } from "./plan.ts";
import { Progress } from "./progress.ts";
import type { Scenario } from "./scenario.ts";
import type { SystemInfo } from "../systems/index.ts";
import { scenarioTable } from "./table.ts";
import { NotOfferedError, type Results } from "./types.ts";

export type RunInput = {
  readonly ground: Ground;
  readonly scenarios: readonly Scenario[];
  readonly systems: readonly SystemInfo[];
  readonly variants: readonly string[] | undefined;
  readonly rounds: number;
  readonly quick: boolean;
  readonly jsonFile: string;
  readonly machine: string;
  readonly versions: Readonly<Record<string, string>>;
};

/** Run every cell. Results are written after each scenario, so that an interrupted run keeps the finished ones. */
export async function run(input: RunInput): Promise<Results> {
  const { ground, scenarios, machine, versions } = input;
  const date = new Date().toISOString();
  const plans = scenarios.map((scenario) => planScenario({ ...input, scenario }));
  const progress = new Progress(plans.flat());
  const collected = new Collected();
  const notes = new Map<string, Set<string>>();

  for (const [index, scenario] of scenarios.entries()) {
    const lines = new Set<string>();
    notes.set(scenario.name, lines);
    for (const step of plans[index] ?? []) {
      const { system, config, variant } = step.cell;
      const label = `${variant.name}, ${system} ${config}`;
      progress.begin(step);
      try {
        const measured = await runCell(ground, step, (line) => lines.add(`${label}: ${line}`));
        collected.add(scenario.name, step.cell, measured);
        progress.end(step, measured);
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        // A system without the feature under test has not failed.
        if (!(error instanceof NotOfferedError)) lines.add(`${label}: failed: ${why}`);
        progress.end(step, error instanceof NotOfferedError ? why : `failed: ${why}`);
      }
    }
    await write(input.jsonFile, { machine, date, versions, rows: collected.rows() });
  }

  const results = { machine, date, versions, rows: collected.rows() };
  progress.line("");
  for (const { name, what } of scenarios) {
    const rows = results.rows.filter((row) => row.scenario === name);
    console.log([scenarioTable(name, what, rows), ...(notes.get(name) ?? [])].join("\n  "));
  }
  return results;
}

async function write(file: string, results: Results): Promise<void> {
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify(results, undefined, 2)}\n`);
}
