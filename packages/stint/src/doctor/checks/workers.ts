import { formatMs, plural } from "../../model/figures.ts";
import { lateLeases, workerFacts, type LateLease, type WorkerFacts } from "../../sql/doctor/workers.ts";
import type { Check } from "../check.ts";
import { error, warning, type Finding, type Seen } from "../finding.ts";

/** Whether the workers respond, and are of one version. */
export const workers: Check = {
  name: "workers",
  needsSchema: true,
  look: async ({ session }) => workersRule(await workerFacts(session), await lateLeases(session)),
};

export function workersRule(found: readonly WorkerFacts[], late: readonly LateLease[]): Seen {
  const findings: Finding[] = [];
  for (const { id, host, pid, heartbeatAgeMs, holds } of found.filter((worker) => worker.unresponsive))
    findings.push(
      warning(
        "A worker stopped responding",
        `${id} on ${host}, pid ${pid}, no heartbeat for ${formatMs(heartbeatAgeMs)}${holds ? "; it still holds jobs" : ""}`,
        "If its process is gone, nothing need be done: its jobs are rescued when their leases expire, and other workers delete its row. " +
          "If it runs, it hangs or cannot reach the database: read its log.",
      ),
    );
  const versions = [
    ...new Set(found.filter((worker) => !worker.unresponsive).map((worker) => worker.version)),
  ];
  if (versions.length > 1)
    findings.push(
      warning(
        "Workers of several versions run side by side",
        versions.map((version) => `${version}: ${idsOf(found, version)}`).join("; "),
        "Normal while a release rolls out. Otherwise deploy the newest everywhere.",
      ),
    );
  for (const { worker, jobs, oldestMs } of late)
    findings.push(
      error(
        "Leases expired and their jobs were not rescued",
        `${plural(jobs, "job")} of worker ${worker}, overdue for ${formatMs(oldestMs)}`,
        "Any running worker of this schema rescues them. Start one, or read the logs of those that run.",
      ),
    );
  return { seen: `${plural(found.length, "worker")}, ${plural(versions.length, "version")}`, findings };
}

function idsOf(found: readonly WorkerFacts[], version: string): string {
  const ids = found
    .filter((worker) => !worker.unresponsive && worker.version === version)
    .map((worker) => worker.id);
  return ids.length > 3 ? `${ids.slice(0, 3).join(", ")} and ${ids.length - 3} more` : ids.join(", ");
}
