import type { Command } from "commander";
import { statesFor } from "../../inspect/filter.ts";
import type { JobState } from "../../model/state.ts";
import { Context, type GlobalOptions } from "../context.ts";
import { inspecting } from "../inspecting.ts";
import { wholePage } from "../whole-page.ts";

/** Sources of values in the database or the config. */
export const sources = ["kinds", "config-kinds", "queues", "pools", "ids"] as const;
export type Source = (typeof sources)[number];

/** The maximum number of job ids. */
const mostIds = 20;

/** The states of jobs whose ids a command completes: those it can act on. Commands that are not listed complete any state. */
const idStates: Record<string, readonly JobState[]> = {
  "jobs cancel": statesFor.cancel,
  "jobs run-now": statesFor["run-now"],
  // Not cancelled jobs: a few among many succeeded jobs are expensive to find.
  "jobs replay": ["dead"],
  "dead replay": ["dead"],
};

/** The values of a source. `line`: the words before the cursor, which may name the database, the schema and the config. */
export async function valuesOf(program: Command, source: Source, line: readonly string[]): Promise<string[]> {
  const { command, given } = commandOf(program, line);
  const context = new Context(program.opts<GlobalOptions>());
  if (source === "kinds") return await places(context, ({ kind }) => kind);
  if (source === "queues") return await places(context, ({ queue }) => queue);
  if (source === "pools") return unique(Object.keys((await context.requireConfig()).worker?.pools ?? {}));
  if (given > 0 && command.registeredArguments[0]?.variadic !== true) return [];
  if (source === "ids") return await ids(context, idStates[`${command.parent?.name()} ${command.name()}`]);
  const { options } = await context.requireConfig();
  return unique((options.jobs ?? []).map(({ kind }) => kind));
}

async function ids(context: Context, states: readonly JobState[] | undefined): Promise<string[]> {
  const state = states === undefined ? {} : { state: [...states] };
  const silent = { note: () => undefined };
  // One request has a time budget of half a second, within which a slow server finds no job.
  const page = await inspecting(context, (inspector) =>
    wholePage(silent, inspector, { limit: mostIds, ...state }),
  );
  return page.jobs.map(({ id }) => id);
}

/** The command of a line, and how many of its arguments the line contains. */
function commandOf(program: Command, line: readonly string[]): { command: Command; given: number } {
  let command = program;
  let { operands, unknown } = program.parseOptions([...line]);
  for (;;) {
    const child = command.commands.find((one) => one.name() === operands[0]);
    if (child === undefined) return { command, given: operands.length };
    const rest = [...operands.slice(1), ...unknown];
    // The value of a trailing option is the one to complete.
    if (rest.at(-1)?.startsWith("-") === true) rest.pop();
    command = child;
    ({ operands, unknown } = child.parseOptions(rest));
  }
}

async function places(
  context: Context,
  pick: (place: { kind: string; queue: string }) => string,
): Promise<string[]> {
  return unique((await inspecting(context, (inspector) => inspector.kinds())).map(pick));
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)].sort();
}
