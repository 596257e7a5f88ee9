import { randomUUID } from "node:crypto";
import { claim } from "#stint/sql/claim.js";
import { rescue } from "#stint/sql/rescue.js";
import type { ClaimedJob } from "#stint/model/job.js";
import type { Fresh } from "./fresh.ts";
import { until } from "./until.ts";

/** Lets the lease of this job expire and claims the job, as another worker would. The victim must have no free slot. */
export async function steal(fresh: Fresh, id: string): Promise<ClaimedJob> {
  const [job] = await fresh.sql<{ kind: string; queue: string }>(
    "select kind, queue from stint.job where id = $1",
    [id],
  );
  return await until(
    async () => {
      // Repeated: the victim may renew its lease before any rescue finds it expired.
      await fresh.sql("update stint.job set lease_until = 'epoch' where id = $1 and state = 'running'", [id]);
      await rescue(fresh.db, { limit: 10, maxCrashes: 10 });
      const [stolen] = await claim(fresh.db, {
        worker: "thief",
        leaseId: randomUUID(),
        takes: [{ queue: job!.queue, limit: 1 }],
        kinds: [job!.kind],
        kindLeaseMs: {},
        leaseMs: 60_000,
      });
      if (stolen !== undefined && stolen.fence.job !== id)
        throw new Error(`Took ${stolen.fence.job} instead of ${id}`);
      return stolen!;
    },
    { message: `job ${id} is stolen` },
  );
}
