import type { Command, Option } from "commander";
import { ListOption } from "../command.ts";
import type { Source } from "./values.ts";

/** One command as completion sees it. */
export type Place = {
  /** The names that lead to it, as in `/jobs/list`; empty for the program itself. */
  readonly path: string;
  /** What may follow it: commands, or the values of its first argument. */
  readonly words: readonly Word[];
  /** Where values of its first argument come from, if the program does not know them itself. */
  readonly source: Source | undefined;
  readonly options: readonly Flag[];
};

export type Word = { readonly word: string; readonly about: string };

export type Flag = Word & {
  readonly takesValue: boolean;
  readonly values: readonly string[];
  /** Where its values come from, if the program does not know them itself. */
  readonly source: Source | undefined;
  /** Takes several values, separated by commas. */
  readonly isList: boolean;
};

/** What placeholders of options and of arguments stand for. */
const optionSources: Record<string, Source> = { kind: "kinds", queue: "queues", pools: "pools" };
const argumentSources: Record<string, Source> = { kind: "config-kinds", id: "ids", queue: "queues" };

/** Every command of the program with what may follow it, read from the program itself, so that it cannot be out of date. */
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
  // `help` lists the commands again; what follows it is one of them.
  const below = children
    .filter((child) => child.name() !== "help")
    .flatMap((child) => placesOf(child, `${path}/${child.name()}`));
  return [own, ...below];
}

function placeholderOf(option: Option): string {
  return /[<[]([\w-]+)/.exec(option.flags)?.[1] ?? "";
}

/** The first line, without what a shell would take for its own. */
function plain(text: string): string {
  return (text.split("\n")[0] ?? "").replaceAll(/['"`\\$:[\]]/g, "");
}
