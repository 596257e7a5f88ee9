import { parseArgs } from "node:util";
import type { Scenario } from "./core/scenario.ts";
import { systems, type SystemInfo } from "./systems/index.ts";
import { scenarios } from "./scenarios/index.ts";

export const help = `npm run bench -- [options]

  --quick              run everything once, with fewer jobs, in under four minutes
  --only a,b/fast      run these systems, by the start of their name, in all configs or in one:
                       ${systems.map((one) => one.name).join(", ")}
  --scenario a,b       run these scenarios: ${scenarios.map((one) => one.name).join(", ")}
  --variant "1 process"  run these variants, by their full names, separated by commas
  --rounds N           measure each cell N times (default 3; with --quick 1)
  --new-log            a server whose write-ahead log has no segments to reuse, as after its installation
  --json FILE          write the results to FILE (default bench/results/latest.json)
  --plots-only         run nothing; draw the plots of that file again
  --help               print this text`;

export type BenchOptions = {
  readonly help: boolean;
  readonly plotsOnly: boolean;
  readonly quick: boolean;
  readonly rounds: number;
  readonly newLog: boolean;
  readonly systems: readonly SystemInfo[];
  readonly scenarios: readonly Scenario[];
  /** Names of variants. Default: all. */
  readonly variants: readonly string[] | undefined;
  readonly jsonFile: string | undefined;
};

/** @throws {Error} An option is unknown, or its value names no existing system, scenario or variant. */
export function parseOptions(args: string[]): BenchOptions {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: "boolean", default: false },
      only: { type: "string" },
      scenario: { type: "string" },
      variant: { type: "string" },
      rounds: { type: "string" },
      "new-log": { type: "boolean", default: false },
      json: { type: "string" },
      "plots-only": { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new Error(`--rounds must be a whole number from 1 on, got "${values.rounds}"`);
  return {
    help: values.help,
    plotsOnly: values["plots-only"],
    quick: values.quick,
    rounds,
    newLog: values["new-log"],
    systems: chooseSystems(values.only),
    scenarios: choose("--scenario", values.scenario, scenarios, (name, wanted) => name === wanted),
    // The comma of a name, as in "idle, node 24", is followed by a space.
    variants: values.variant?.split(/,(?! )/).map((name) => name.trim()),
    jsonFile: values.json,
  };
}

/** Systems by the start of their name, each in all of its configs, or in the one after the slash. */
function chooseSystems(value: string | undefined): readonly SystemInfo[] {
  const wanted = value?.split(",").map((one) => one.trim().split("/"));
  const chosen = choose("--only", wanted?.map(([name]) => name).join(","), systems, (name, begin) =>
    name.startsWith(begin),
  );
  if (wanted === undefined) return chosen;
  return chosen.map((system) => {
    const only = wanted.filter(([name]) => name !== undefined && system.name.startsWith(name));
    const isWanted = (config: string): boolean => only.some(([, one]) => one === undefined || one === config);
    const configs = system.configs.filter(isWanted);
    return { name: system.name, role: system.role, configs };
  });
}

function choose<Named extends { readonly name: string }>(
  option: string,
  value: string | undefined,
  all: readonly Named[],
  matches: (name: string, wanted: string) => boolean,
): readonly Named[] {
  if (value === undefined) return all;
  const wanted = value.split(",").map((name) => name.trim());
  for (const name of wanted) {
    if (name === "" || !all.some((one) => matches(one.name, name)))
      throw new Error(
        `${option}: there is no "${name}". There are: ${all.map((one) => one.name).join(", ")}`,
      );
  }
  return all.filter((one) => wanted.some((name) => matches(one.name, name)));
}
