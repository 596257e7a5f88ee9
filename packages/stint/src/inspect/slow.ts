import { formatMs } from "../model/figures.ts";
import { slowness, type Slowness } from "../model/slow.ts";
import { runBaselines } from "../telemetry/run-baseline.ts";
import type { Runs } from "../sql/series.ts";
import type { RunningJob } from "../sql/slow.ts";
import type { SlowJob } from "./types.ts";

/** The slow running jobs, the longest first. */
export function toSlowJobs(running: readonly RunningJob[], runs: Runs): SlowJob[] {
  const baselines = runBaselines(runs);
  return running
    .flatMap((job): SlowJob[] => {
      const p95Ms = baselines.get(job.kind) ?? null;
      const because = slowness({ ...job, p95Ms });
      if (because === null) return [];
      const { id, kind, queue, worker, attempt, runningMs } = job;
      return [
        {
          id,
          kind,
          queue,
          worker,
          attempt,
          runningMs,
          p95Ms,
          because,
          text: textOf(job, p95Ms, because),
        },
      ];
    })
    .sort((a, b) => b.runningMs - a.runningMs);
}

function textOf(job: RunningJob, p95Ms: number | null, because: Slowness): string {
  const ran = `It has been running for ${formatMs(job.runningMs)}`;
  if (because === "near-lease") {
    return job.leaseLeftMs <= 0
      ? `${ran}, and its lease ran out ${formatMs(-job.leaseLeftMs)} ago: its worker stopped responding.`
      : `${ran}, and its lease runs out in ${formatMs(job.leaseLeftMs)}: it is not being renewed.`;
  }
  if (because === "stalled")
    return `${ran} and has reported nothing for ${formatMs(job.quietMs)}; its kind allows ${formatMs(job.stallAfterMs ?? 0)}.`;
  if (because === "near-timeout") return `${ran} of the ${formatMs(job.timeoutMs ?? 0)} it may take.`;
  return `${ran}; p95 for this kind is ${formatMs(p95Ms ?? 0)}.`;
}
