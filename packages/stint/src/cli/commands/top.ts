import type { Command } from "commander";
import { toMs } from "../../model/duration.ts";
import { examples, runs } from "../command.ts";
import { inspecting } from "../inspecting.ts";
import { drawOnce } from "../top/draw.ts";
import { watch } from "../top/live.ts";
import { take } from "../top/snapshot.ts";

type TopFlags = { once?: boolean; every?: string };

export function addTop(program: Command): void {
  const command = program.command("top").summary("watch the queues, live");
  command.description(
    "Watch the queues; the one that will miss its target first is on top. Keys open a queue, dead jobs, workers and slow jobs.\n" +
      "Without a terminal, or with --once, it prints the queues once.",
  );
  command
    .option("--once", "print the queues once and exit")
    .option("--every <duration>", "refresh interval (default 2s)");
  examples(command, "stint top", "stint top --once", "stint top --json | jq '.queues[0]'");
  runs<TopFlags>(command, async (context, { options }) => {
    const everyMs = toMs(options.every ?? "2s", "--every", { min: 200, max: 3_600_000 });
    const { out } = context;
    await inspecting(context, async (inspector) => {
      if (out.json) return out.document(await inspector.health());
      const live = options.once !== true && process.stdout.isTTY && process.stdin.isTTY;
      if (live) return await watch(inspector, { out, schema: await context.schema(), everyMs });
      for (const line of drawOnce(out, await take(inspector, "queues"))) out.shown([line], "");
    });
  });
}
