import type { Command } from "commander";

/** One command as completion sees it. */
export type Place = {
  /** The names that lead to it, as in `/jobs/list`; empty for the program itself. */
  readonly path: string;
  /** What may follow it: commands, or the values of its first argument. */
  readonly words: readonly Word[];
  readonly options: readonly Flag[];
};

export type Word = { readonly word: string; readonly about: string };

export type Flag = Word & {
  readonly takesValue: boolean;
  readonly values: readonly string[];
};

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
    options: [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)].flatMap((option) =>
      option.long === undefined
        ? []
        : [
            {
              word: option.long,
              about: plain(option.description),
              takesValue: option.required || option.optional,
              values: option.argChoices ?? [],
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

/** The first line, without what a shell would take for its own. */
function plain(text: string): string {
  return (text.split("\n")[0] ?? "").replaceAll(/['"`\\$:[\]]/g, "");
}
