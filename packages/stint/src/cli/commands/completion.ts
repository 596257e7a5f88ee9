import { Argument, type Command } from "commander";
import { examples, runs } from "../command.ts";
import { bashScript } from "../completion/bash.ts";
import { fishScript } from "../completion/fish.ts";
import { placesOf, type Place } from "../completion/tree.ts";
import { zshScript } from "../completion/zsh.ts";

const scripts: Record<string, (places: readonly Place[]) => string> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

export function addCompletion(program: Command): void {
  const command = program.command("completion").summary("print a script that completes commands and options");
  command.description(
    "Print a script with which your shell completes the commands and options of stint.\n" +
      "It says in its first line how to install it.",
  );
  command.addArgument(new Argument("<shell>", "which shell").choices(Object.keys(scripts)));
  examples(
    command,
    'eval "$(stint completion bash)"',
    "stint completion fish > ~/.config/fish/completions/stint.fish",
  );
  runs(command, async (context, { args: [shell = ""] }) => {
    const script = scripts[shell]?.(placesOf(program)) ?? "";
    if (context.out.json) context.out.document({ shell, script });
    else context.out.script(script);
    await Promise.resolve();
  });
}
