import { InvalidArgumentError, Option, type Command } from "commander";
import { InvalidOptionError } from "../errors.ts";
import { closest } from "../model/names.ts";
import { Context, type GlobalOptions } from "./context.ts";
import { exitCodes, reportError, UsageError } from "./report-error.ts";

/** What a command does. Returns an exit code; nothing means 0. */
export type Run<Options> = (
  context: Context,
  input: { options: Options; args: readonly string[] },
) => Promise<number | void>;

/** Wire a command's code to commander: its context, its errors, its exit code. */
export function runs<Options extends object>(command: Command, run: Run<Options>): Command {
  return command.action(async () => {
    const context = new Context(command.optsWithGlobals<GlobalOptions>());
    try {
      const code = await run(context, { options: command.opts<Options>(), args: command.args });
      process.exitCode = code ?? exitCodes.ok;
    } catch (caught) {
      const { error, hints } = await context.explain(asFlag(caught, command));
      process.exitCode = reportError(error, {
        out: context.out,
        verbose: context.verbose,
        hints: [...hints, ...helpHint(error, command)],
      });
    } finally {
      // An enqueue whose response is lost must not hide its own error behind that of closing.
      await context.close().catch(() => undefined);
    }
  });
}

/** The client names an option `list.maxAge`; the user gave it as --max-age and must correct it there. */
function asFlag(error: unknown, command: Command): unknown {
  if (!(error instanceof InvalidOptionError)) return error;
  const name = /\.(\w+)$/.exec(error.option)?.[1];
  const flag = command.options.find((option) => option.attributeName() === name)?.long;
  return flag === undefined ? error : new InvalidOptionError(flag, error.rule, { cause: error });
}

/** Names the help of the command when the command line itself is wrong. */
function helpHint(error: unknown, command: Command): string[] {
  const isAboutFlags = error instanceof InvalidOptionError && error.option.startsWith("--");
  return isAboutFlags || error instanceof UsageError ? [seeHelp(command)] : [];
}

export function seeHelp(command: Command): string {
  const names: string[] = [];
  for (let one: Command | null = command; one !== null; one = one.parent) names.unshift(one.name());
  return `See \`${names.join(" ")} --help\`.`;
}

/** Examples at the end of a command's help. */
export function examples(command: Command, ...lines: readonly string[]): Command {
  return command.addHelpText("after", `\nExamples:\n${lines.map((line) => `  $ ${line}`).join("\n")}`);
}

/** A whole number, as an option's value. */
export function integer(text: string): number {
  if (!/^-?\d{1,15}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return Number(text);
}

/** For options that may be repeated, and may hold several values separated by commas. */
function listed(text: string, before: readonly string[] = []): string[] {
  const values = text.split(",").map((part) => part.trim());
  if (values.includes("")) throw new InvalidArgumentError("It must be names separated by commas.");
  return [...before, ...values];
}

/** An option that takes several values, separated by commas. Shells offer `values`. */
export class ListOption extends Option {
  readonly values: readonly string[];

  constructor(flags: string, description: string, values: readonly string[] = []) {
    super(flags, description);
    this.values = values;
    this.argParser(listed);
  }
}

/** For options that may be repeated, whose values may hold commas. */
export function repeated(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** For groups with a default command, where a misspelt command arrives as an argument of the default. */
export function unknownCommand(group: Command, name: string): UsageError {
  const suggestion = closest(
    name,
    group.commands.map((command) => command.name()),
  );
  const meant = suggestion === undefined ? "" : ` (Did you mean ${suggestion}?)`;
  return new UsageError(`unknown command '${name}'${meant}`);
}
