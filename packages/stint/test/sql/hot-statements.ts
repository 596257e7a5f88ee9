import type { Client } from "pg";
import type { Run } from "#stint/db/db.js";
import { newId } from "#stint/runtime/new-id.js";
import { promote } from "#stint/sql/promote.js";
import { renew } from "#stint/sql/renew.js";
import { finish } from "#stint/sql/finish.js";
import { release } from "#stint/sql/release.js";
import { requeue } from "#stint/sql/requeue.js";
import { succeed } from "#stint/sql/succeed.js";
import { faultsOf, indexesOf, planned, prepare } from "./explain.ts";
import { calls } from "./statements.ts";

/** As many as one settle or renewal may carry: the planner sees the number, and must not prefer a scan for it. */
const fences = Array.from({ length: 500 }, () => ({ job: newId(), epoch: 1, leaseId: newId() }));

/** The statements that run many times a second, and the index each must go by. */
const hot: Record<string, { by: string; call: (db: Run) => Promise<unknown> }> = {
  claim: { by: "job_ready", call: calls["claim"]! },
  claimOnward: { by: "job_ready", call: calls["claimOnward"]! },
  claimPools: { by: "job_ready", call: calls["claimPools"]! },
  claimPoolsOnward: { by: "job_ready", call: calls["claimPoolsOnward"]! },
  claimFair: { by: "job_fair", call: calls["claimFair"]! },
  claimAged: { by: "job_ready", call: calls["claimAged"]! },
  claimUrgent: { by: "job_ready", call: calls["claimUrgent"]! },
  claimInShares: { by: "job_ready", call: calls["claimInShares"]! },
  claimOnwardInShares: { by: "job_ready", call: calls["claimOnwardInShares"]! },
  findReadyQueues: { by: "job_ready", call: calls["findReadyQueues"]! },
  idleCheck: { by: "job_ready", call: calls["idleCheck"]! },
  idleCheckPools: { by: "job_ready", call: calls["idleCheckPools"]! },
  claimQuarantined: { by: "job_parked", call: calls["claimQuarantined"]! },
  promote: { by: "job_due", call: calls["promote"]! },
  promoteSince: { by: "job_due", call: (db) => promote(db, 1_000, "2026-01-01 00:00:00+00") },
  rescue: { by: "job_lease", call: calls["rescue"]! },
  renew: { by: "job_pkey", call: calls["renew"]! },
  renewMany: {
    by: "job_pkey",
    call: (db) =>
      renew(
        db,
        fences.map((fence) => ({ ...fence, leaseMs: 30_000 })),
      ),
  },
  succeed: { by: "job_pkey", call: calls["succeed"]! },
  succeedMany: { by: "job_pkey", call: (db) => succeed(db, fences) },
  finish: { by: "job_pkey", call: calls["finish"]! },
  finishMany: {
    by: "job_pkey",
    call: (db) =>
      finish(
        db,
        fences.map((fence) => ({ fence, state: "succeeded", result: "1", reason: null, ending: null })),
      ),
  },
  release: { by: "job_pkey", call: calls["release"]! },
  park: { by: "job_pkey", call: calls["park"]! },
  releaseMany: { by: "job_pkey", call: (db) => release(db, fences) },
  requeue: { by: "job_pkey", call: calls["requeue"]! },
  requeueMany: {
    by: "job_pkey",
    call: (db) =>
      requeue(
        db,
        fences.map((fence) => ({
          fence,
          state: "retrying",
          delayMs: 1_000,
          countsAs: "attempt",
          ending: { outcome: "failed" },
        })),
      ),
  },
};

/** What is wrong with the plans of the hot statements on the tables as they are now, generic and custom. */
export async function hotFaults(client: Client, schema: string): Promise<string[]> {
  const faults: string[] = [];
  for (const mode of ["force_generic_plan", "force_custom_plan"]) {
    await client.query(`set plan_cache_mode = ${mode}`);
    for (const [name, { by, call }] of Object.entries(hot)) {
      const nodes = await planned(client, await prepare(client, schema, call));
      faults.push(...faultsOf(nodes).map((fault) => `${mode} ${name}: ${fault}`));
      if (!indexesOf(nodes).has(by)) faults.push(`${mode} ${name}: does not use ${by}`);
    }
  }
  return faults;
}
