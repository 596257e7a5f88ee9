import { expect, test } from "vitest";
import { systems } from "../systems/index.ts";
import { planScenario } from "./plan.ts";
import { defineScenario } from "./scenario.ts";

const scenario = defineScenario({
  name: "made up",
  what: "nothing",
  variants: () => [{ name: "a" }, { name: "b" }],
  includes: ({ system, variant }) => system !== "ceiling" || variant.name === "a",
  measure: async () => [],
});

function order(round: number, variant: string): string[] {
  return planScenario({ scenario, systems, rounds: 2, quick: true })
    .filter(({ cell }) => cell.round === round && cell.variant.name === variant)
    .map(({ cell }) => `${cell.system} ${cell.config}`);
}

test("every system has its turn within a variant before the next variant begins", () => {
  const names = planScenario({ scenario, systems, rounds: 1, quick: true }).map(
    (step) => step.cell.variant.name,
  );
  expect(names).toEqual(names.toSorted());
});

test("the order rotates from round to round and leaves no system out", () => {
  expect(order(0, "a")[0]).toBe("stint default");
  expect(order(1, "a")[0]).not.toBe("stint default");
  expect(order(1, "a").toSorted()).toEqual(order(0, "a").toSorted());
});

test("a cell that the scenario does not include is not run", () => {
  expect(order(0, "a")).toContain("ceiling default");
  expect(order(0, "b")).not.toContain("ceiling default");
});

test("only the selected variants are run", () => {
  const names = planScenario({ scenario, systems, rounds: 1, quick: true, variants: ["b"] }).map(
    (step) => step.cell.variant.name,
  );
  expect(new Set(names)).toEqual(new Set(["b"]));
});
