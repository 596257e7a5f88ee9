import type { Command } from "commander";
import { JobNotFoundError } from "../../errors.ts";
import { examples, runs } from "../command.ts";
import { inspecting } from "../inspecting.ts";
import { paint, say } from "../output.ts";

export function addWhy(jobs: Command): void {
  const command = jobs
    .command("why <id>")
    .description("Why a job does not run, or how it runs or ended, and what to do about it.");
  examples(command, "stint jobs why 019a8a2c-1f00-7000-8000-0123456789ab");
  runs(command, async (context, { args: [id = ""] }) => {
    const { out } = context;
    const why = await inspecting(context, (inspector) => inspector.why(id));
    if (why === undefined) throw new JobNotFoundError(id);
    if (out.json) return out.document({ id, ...why });
    out.line(say`${paint("bold", why.summary)}`);
    for (const { blocks, text, advice } of why.findings) {
      // Marked by a sign, not by a colour alone.
      out.line(say`${blocks ? paint("yellow", "✗") : paint("dim", "·")} ${text}`);
      if (advice !== null) out.line(say`  ${paint("dim", "→")} ${advice}`);
    }
  });
}
