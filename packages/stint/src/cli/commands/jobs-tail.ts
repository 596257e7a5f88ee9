import type { Command } from "commander";
import type { JobFilter } from "../../inspect/types.ts";
import { toMs } from "../../model/duration.ts";
import { requireOneOf } from "../../model/options.ts";
import { states, type JobState } from "../../model/state.ts";
import { sleep } from "../../runtime/sleep.ts";
import { examples, ListOption, runs } from "../command.ts";
import { inspecting } from "../inspecting.ts";
import { stateText } from "../job-text.ts";
import { paint, say, type Output } from "../output.ts";
import { onStopSignals } from "../stop-signals.ts";
import { Tail, type Change } from "../tail.ts";

type Flags = { state?: JobState[]; kind?: string; queue?: string; every?: string };

export function addTail(jobs: Command): void {
  const command = jobs
    .command("tail")
    .description("Follow jobs as they are enqueued, run and end, one line each, until Ctrl-C.");
  command
    .addOption(
      new ListOption(
        "--state <states>",
        `only changes to these, separated by commas: ${states.join(", ")}`,
        states,
      ),
    )
    .option("--kind <kind>", "only this kind; * matches any characters, as in 'read-*'")
    .option("--queue <queue>", "only this queue")
    .option("--every <duration>", "refresh interval (default 1s)");
  examples(command, "stint jobs tail --queue mail", "stint jobs tail --state dead --json");
  runs<Flags>(command, async (context, { options: { state, kind, queue, every } }) => {
    const everyMs = toMs(every ?? "1s", "--every", { min: 100 });
    const wanted = state?.map((one) => requireOneOf("--state", one, states));
    const filter: JobFilter = {
      ...(kind === undefined ? {} : { kind }),
      ...(queue === undefined ? {} : { queue }),
    };
    const client = await context.client();
    const stop = new AbortController();
    const stopListening = onStopSignals(() => stop.abort());
    try {
      await inspecting(context, async (inspector) => {
        const tail = new Tail(inspector, {
          filter,
          get: async (id) => await client.get(id),
          ...(wanted === undefined ? {} : { states: wanted }),
        });
        await tail.look();
        context.out.note(say`Following. Ctrl-C ends it.`);
        while (!stop.signal.aborted) {
          const began = performance.now();
          for (const change of await tail.look()) write(context.out, change);
          // Looking is never more than a fifth of the time.
          await sleep(Math.max(everyMs, 4 * (performance.now() - began)), stop.signal);
        }
      });
    } finally {
      stopListening();
    }
  });
}

function write(out: Output, change: Change): void {
  const { id, kind, queue, state, key, reason, worker, attempts, error } = change;
  const at = new Date();
  if (out.json) {
    out.event({ event: "job", at, id, kind, queue, state, key, attempts, worker, reason });
    return;
  }
  const time = at.toISOString().slice(11, 19);
  const more = [
    ...(key === null ? [] : [`key ${key}`]),
    ...(state === "running" && worker !== null ? [`on ${worker}`] : []),
    ...(reason === null ? [] : [reason]),
    // The reason of a dead job repeats it.
    ...(state === "retrying" && error != null ? [`${error.name}: ${error.message}`] : []),
  ].join("; ");
  const painted = stateText(state);
  out.line(
    say`${paint("dim", time)}  ${id}  ${{ ...painted, text: state.padEnd(9) }}  ${queue}/${kind}  ${more}`,
  );
}
