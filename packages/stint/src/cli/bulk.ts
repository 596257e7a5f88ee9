import type { BulkAction, Count, Inspector, JobFilter, Operation } from "../inspect/types.ts";
import { formatCount, plural } from "../model/figures.ts";
import { InvalidOptionError } from "../errors.ts";
import { toActionSearch } from "../inspect/filter.ts";
import { sleep } from "../runtime/sleep.ts";
import { confirmByTyping } from "./confirm.ts";
import { actor, type Context } from "./context.ts";
import { inspecting } from "./inspecting.ts";
import { jobRowColumns } from "./job-row.ts";
import { say } from "./output.ts";
import { exitCodes } from "./report-error.ts";
import { onStopSignals } from "./stop-signals.ts";
import { table } from "./table.ts";

export type BulkFlags = { all?: boolean; reason?: string; yes?: boolean; dryRun?: boolean };

const everyMs = 200;
const doing: Record<BulkAction, string> = { cancel: "Cancel", "run-now": "Make ready", replay: "Replay" };
const did: Record<BulkAction, string> = { cancel: "Cancelled", "run-now": "Made ready", replay: "Replayed" };

/** Act on every job of a filter: show what it would be, ask, begin, follow it to its end. */
export async function actInBulk(
  context: Context,
  action: BulkAction,
  filter: JobFilter,
  { reason, yes = false, dryRun = false }: BulkFlags,
): Promise<number> {
  const { out } = context;
  if (!dryRun && reason === undefined) {
    throw new InvalidOptionError("--reason", "is required: say why, for the people who read the audit later");
  }
  return await inspecting(context, async (inspector) => {
    const { sample, asOf, ...preview } = await inspector.preview(action, filter);
    const matched = await countOn(context, inspector, preview.matched, { action, filter });
    if (dryRun) {
      if (out.json) out.document({ action, matched, sample });
      else {
        if (sample.length > 0) table(out, jobRowColumns, sample);
        out.line(say`Would ${action} ${countText(matched)}.`);
      }
      return exitCodes.ok;
    }
    if (matched.count === 0 && !matched.capped) {
      if (out.json) out.document({ action, matched, operation: null });
      else out.note(say`No such job: nothing to ${action}.`);
      return exitCodes.ok;
    }
    if (!out.json && !yes) table(out, jobRowColumns, sample);
    const question = `${doing[action]} ${countText(matched)}?`;
    if (!(await confirmByTyping(question, action, { yes, json: out.json }))) {
      out.note(say`Nothing was changed.`);
      return exitCodes.failed;
    }
    const begun = await inspector.begin(action, filter, {
      reason: reason ?? "",
      actor: actor(),
      preview: { matched, asOf },
    });
    const ended = await follow(context, inspector, begun);
    return report(context, ended);
  });
}

/** Continue a count that was capped, with its progress, to its end. A stop signal leaves it at what was counted. */
async function countOn(
  { out }: Context,
  inspector: Inspector,
  begun: Count,
  { action, filter }: { action: BulkAction; filter: JobFilter },
): Promise<Count> {
  const stop = new AbortController();
  const stopListening = onStopSignals(() => stop.abort());
  const { states } = toActionSearch(action, filter);
  try {
    let { count, capped, next } = begun;
    while (capped && next !== undefined && !stop.signal.aborted) {
      out.note(say`Counted ${plural(count, "job")} so far …`);
      const further = await inspector.count({ ...filter, state: states, after: next });
      count += further.count;
      ({ capped, next } = further);
    }
    return { count, capped };
  } finally {
    stopListening();
  }
}

/** Until it is over. A stop signal aborts it, between two batches. */
async function follow({ out }: Context, inspector: Inspector, begun: Operation): Promise<Operation> {
  let asked: Promise<unknown> = Promise.resolve();
  const stopListening = onStopSignals(() => {
    out.note(say`Aborting. What was done stays done.`);
    asked = inspector.abort(begun.id);
  });
  try {
    let now = begun;
    let reported = 0;
    while (now.state === "running") {
      await sleep(everyMs);
      await asked;
      now = (await inspector.operation(begun.id)) ?? now;
      if (now.state !== "running" || now.done + now.skipped < reported + 1_000) continue;
      reported = now.done + now.skipped;
      out.note(say`${formatCount(reported)} of ${countText(now.matched)} …`);
    }
    return now;
  } finally {
    stopListening();
  }
}

function report({ out }: Context, operation: Operation): number {
  const { action, state, done, changed, error } = operation;
  if (out.json) out.document(operation);
  else {
    out.line(say`${did[action]} ${countText({ count: done, capped: false })}.`);
    if (changed !== null && changed > 0)
      out.note(say`${changed} of those that matched had changed meanwhile, or another session held them.`);
    if (state !== "finished") {
      out.note(
        say`It was ${state}${error === undefined ? "" : `: ${error}`}. To continue with what is left, run it again.`,
      );
    }
  }
  return state === "finished" ? exitCodes.ok : exitCodes.failed;
}

function countText({ count, capped }: Count): string {
  return capped ? `at least ${plural(count, "job")}` : plural(count, "job");
}
