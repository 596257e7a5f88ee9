import type { SystemInfo } from "../systems/index.ts";
import type { Cell, Scenario } from "./scenario.ts";

export type Step = { readonly scenario: Scenario; readonly cell: Cell };

export type PlanInput = {
  readonly scenario: Scenario;
  readonly systems: readonly SystemInfo[];
  readonly rounds: number;
  readonly quick: boolean;
  /** Names of variants. Default: all. */
  readonly variants?: readonly string[] | undefined;
};

/**
 * The cells of a scenario in execution order: by round, then variant, then system. The order of systems rotates from round to round,
 * so that no system always follows the same one.
 */
export function planScenario({ scenario, systems, rounds, quick, variants }: PlanInput): Step[] {
  const chosen = scenario.variants(quick).filter(({ name }) => variants?.includes(name) ?? true);
  const entries = systems.flatMap(({ name, configs }) => configs.map((config) => ({ system: name, config })));
  return Array.from({ length: rounds }, (_, round) => round).flatMap((round) => {
    const turn = entries.length === 0 ? 0 : (round * 3) % entries.length;
    const rotated = [...entries.slice(turn), ...entries.slice(0, turn)];
    return chosen.flatMap((variant) =>
      rotated
        .map(({ system, config }) => ({ system, config, variant, quick }))
        .filter((cell) => scenario.includes(cell))
        .map((cell) => ({ scenario, cell: { ...cell, round } })),
    );
  });
}
