import { Worker } from "node:worker_threads";
import { Argument, type Command } from "commander";
import { toMs } from "../../model/duration.ts";
import { sleep } from "../../runtime/sleep.ts";
import { examples, runs } from "../command.ts";
import { bashScript } from "../completion/bash.ts";
import { fishScript } from "../completion/fish.ts";
import { placesOf, type Place } from "../completion/tree.ts";
import { sources, valuesOf, type Source } from "../completion/values.ts";
import { zshScript } from "../completion/zsh.ts";

const scripts: Record<string, (places: readonly Place[]) => string> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

export function addCompletion(program: Command): void {
  const command = program
    .command("completion")
    .summary("print a script that completes commands, options and values");
  command.description(
    "Print a script with which your shell completes the commands, options and values of stint.\n" +
      "Its first line shows how to install it.",
  );
  command.addArgument(new Argument("<shell>", "which shell").choices(Object.keys(scripts)));
  examples(
    command,
    'eval "$(stint completion bash)"',
    "stint completion fish > ~/.config/fish/conf.d/stint.fish",
  );
  runs(command, async (context, { args: [shell = ""] }) => {
    const script = scripts[shell]?.(placesOf(program)) ?? "";
    if (context.out.json) context.out.document({ shell, script });
    else context.out.script(script);
    await Promise.resolve();
  });
}

/** The completion scripts call this command for values. The shell's prompt waits for it, so it prints nothing on errors. */
export function addCompleteValues(program: Command): void {
  const command = program.command("complete-values", { hidden: true });
  command.addArgument(new Argument("<source>", "which values").choices(sources));
  command.argument("[line...]", "the words before the cursor");
  command.action(async (source: Source, line: readonly string[]) => {
    const limitMs = timeLimit();
    killAfter(2 * limitMs);
    // Output of the config while it loads must not be offered as a value.
    const write = process.stdout.write.bind(process.stdout);
    process.stdout.write = () => true;
    const values = await Promise.race([
      valuesOf(program, source, line).catch(() => []),
      sleep(limitMs).then(() => []),
    ]);
    process.stdout.write = write;
    process.stdout.write(values.map((value) => `${value}\n`).join(""));
  });
}

/** A config that blocks the event loop (execSync) stops every timer of this thread, so another thread ends the process. */
function killAfter(ms: number): void {
  const code = `setTimeout(() => process.kill(process.pid, "SIGKILL"), ${ms})`;
  new Worker(code, { eval: true }).unref();
}

function timeLimit(): number {
  try {
    return toMs(process.env["STINT_COMPLETION_TIMEOUT"] ?? "1s", "STINT_COMPLETION_TIMEOUT");
  } catch {
    return 1_000;
  }
}
