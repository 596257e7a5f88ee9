import { command } from "../model/command.ts";
import { plural } from "../model/figures.ts";
import { blocks, notes, some, type Facts, type Finding } from "./findings.ts";

// What the flow of a job adds to the reasons why the job does not run.

/** Of a job that waits for others: which of them hold it back. */
export function waitsForOthers({ schema, flow }: Facts): Finding[] {
  if (flow === undefined) return [];
  const { pending, isOpen, open, waitsFor } = flow;
  const show = `To see the whole: \`${command(schema, "flows", "show", flow.flow)}\`.`;
  const unended = isOpen ? pending - 1 : pending;
  return [
    ...(unended > 0 ? [blocks(`It waits for ${unended} of ${plural(waitsFor, "job")}.`, show)] : []),
    ...(isOpen
      ? [
          blocks(
            "Its batch is open, so that more jobs can be added.",
            "Call `stint.flows.close(id)` after the last.",
          ),
        ]
      : []),
    ...open.map(({ id, kind, state, parkReason }) => {
      const ended = state === "dead" || state === "cancelled";
      const what = `It waits for ${kind} ${id}, which is ${state}${parkReason === null ? "" : ` (${parkReason})`}.`;
      return ended
        ? blocks(
            what,
            `Replay that job: \`${command(schema, "jobs", "replay", id, "--reason", "…")}\`. Or cancel this one.`,
          )
        : notes(what, state === "parked" ? `To see why: \`${command(schema, "jobs", "why", id)}\`.` : null);
    }),
  ];
}

/** Of a job that has ended: what it leaves behind in its flow. */
export function leftInFlow({ job, flow }: Facts): Finding[] {
  if (flow === undefined) return [];
  const { refused, waitedForBy, stopped } = flow;
  return [
    ...(refused === null
      ? []
      : [
          blocks(
            `Its chain ended here: ${refused}`,
            "Correct what its handler passes to continueWith or spawn, and enqueue the missing job.",
          ),
        ]),
    ...(waitedForBy > 0 && job.state !== "succeeded"
      ? [notes(`${some(waitedForBy, 100)} waiting for it.`, "They run after a replay of it has succeeded.")]
      : []),
    ...(stopped === null || stopped === "" ? [] : [notes(`Its flow was stopped: ${stopped}.`)]),
  ];
}
