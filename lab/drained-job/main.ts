/**
 * What a drained job costs the server, and what each part of that cost is: the three statements of the product, and variants of them or of
 * the tables, in interleaved rounds. The figures behind docs/decisions/0028-cost-of-a-drained-job.md.
 *
 *   npm run lab:drained-job -- [--jobs 60000] [--rounds 5] [--only "brin,no checks"]
 *   npm run lab:drained-job -- --jobs 2000 --batch 1                        # single jobs, as at everyday rates
 *   npm run lab:drained-job -- --only none --against ../another-checkout    # this build and another one
 */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { startEmbedded } from "stint/dev";
import { measure, type Cost, type Variant } from "./server-cost.ts";
import { build, variants } from "./variants.ts";

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "60000" },
    batch: { type: "string", default: "1000" },
    rounds: { type: "string", default: "5" },
    only: { type: "string" },
    against: { type: "string" },
  },
});
const only = values.only?.split(",");
const chosen: Variant[] = (await variants()).filter(
  ({ name }) => name === "as it is" || (only?.includes(name) ?? true),
);
if (values.against !== undefined)
  chosen.push({ name: values.against, ...(await build(pathToFileURL(`${resolve(values.against)}/`))) });

const size = { jobs: Number(values.jobs), batch: Number(values.batch) };
const server = await startEmbedded({ settings: { shared_buffers: "1GB", max_wal_size: "4GB", jit: "off" } });
const costs = new Map<string, Cost[]>();
try {
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const variant of chosen) {
      const cost = await measure(server.url, variant, size);
      costs.set(variant.name, [...(costs.get(variant.name) ?? []), cost]);
      console.error(`${round + 1}: ${variant.name}: ${show(cost)}`);
    }
  }
} finally {
  await server.stop("fast");
}

console.log("\nmedians, µs of the backend's processor time per job");
for (const [name, all] of costs) {
  const totals = all.map(sum).sort((a, b) => a - b);
  const mid = (pick: (cost: Cost) => number): number =>
    all.map(pick).sort((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0;
  const range = `${totals[0]?.toFixed(1)} to ${totals.at(-1)?.toFixed(1)}`;
  const medians = {
    enqueueUs: mid((c) => c.enqueueUs),
    claimUs: mid((c) => c.claimUs),
    settleUs: mid((c) => c.settleUs),
  };
  const rest = { kernelUs: mid((c) => c.kernelUs), walBytes: mid((c) => c.walBytes) };
  console.log(`${name.padEnd(34)} ${show({ ...medians, ...rest })}  (${range})`);
}

function sum({ enqueueUs, claimUs, settleUs }: Cost): number {
  return enqueueUs + claimUs + settleUs;
}

function show(cost: Cost): string {
  const { enqueueUs, claimUs, settleUs, kernelUs, walBytes } = cost;
  const [enqueue, claim, settle, all] = [enqueueUs, claimUs, settleUs, sum(cost)].map((us) =>
    us.toFixed(1).padStart(5),
  );
  const parts = `enqueue ${enqueue} + claim ${claim} + settle ${settle} = ${all} µs`;
  return `${parts}; of the drain ${kernelUs.toFixed(1)} in the kernel, ${Math.round(walBytes)} bytes of log`;
}
