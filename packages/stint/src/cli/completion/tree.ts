import type { Command, Option } from "commander";
import { ListOption } from "../command.ts";
import type { Source } from "./values.ts";

/** One command with its completions. */
export type Place = {
  /** The path of command names, such as `/jobs/list`; empty for the program itself. */
  readonly path: string;
  /** Completions after the command: subcommands, or the values of its first argument. */
  readonly words: readonly Word[];
  /** The source of its first argument's values, if they come from the database or the config. */
  readonly source: Source | undefined;
  readonly options: readonly Flag[];
};

export type Word = { readonly word: string; readonly about: string };

export type Flag = Word & {
  readonly takesValue: boolean;
  readonly values: readonly string[];
  /** The source of its values, if they come from the database or the config. */
  readonly source: Source | undefined;
  /** Takes several values, separated by commas. */
  readonly isList: boolean;
};

/** The value source for each placeholder of options and arguments. */
const optionSources: Record<string, Source> = { kind: "kinds", queue: "queues", pools: "pools" };
const argumentSources: Record<string, Source> = { kind: "config-kinds", id: "ids", queue: "queues" };

/** Every command with its completions, read from the program itself, so that it is never out of date. */
export function placesOf(command: Command, path = ""): Place[] {
  const help = command.createHelp();
  const children = help.visibleCommands(command);
  const [argument] = command.registeredArguments;
  const own: Place = {
    path,
    words: [
      ...children.map((child) => ({
        word: child.name(),
        about: plain(child.summary() || child.description()),
      })),
      ...(argument?.argChoices ?? []).map((word) => ({ word, about: plain(argument?.description ?? "") })),
    ],
    source: argument === undefined ? undefined : argumentSources[argument.name()],
    options: [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)].flatMap((option) =>
      option.long === undefined
        ? []
        : [
            {
              word: option.long,
              about: plain(option.description),
              takesValue: option.required || option.optional,
              values: option instanceof ListOption ? option.values : (option.argChoices ?? []),
              source: optionSources[placeholderOf(option)],
              isList: option instanceof ListOption,
            },
          ],
    ),
  };
  // The argument of `help` is a command.
  const below = children
    .filter((child) => child.name() !== "help")
    .flatMap((child) => placesOf(child, `${path}/${child.name()}`));
  return [own, ...below];
}

function placeholderOf(option: Option): string {
  return /[<[]([\w-]+)/.exec(option.flags)?.[1] ?? "";
}

/** The first line, without characters that are special in a shell. */
function plain(text: string): string {
  return (text.split("\n")[0] ?? "").replaceAll(/['"`\\$:[\]]/g, "");
}
