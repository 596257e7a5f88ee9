import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { nowMs } from "../core/clock.ts";
import { peersFolder } from "../core/peers.ts";
import { defineScenario, type NodeVersion, type Variant } from "../core/scenario.ts";
import { median } from "../core/stats.ts";
import { isPeer, type SystemName } from "../systems/index.ts";

type Cold = Variant & { node: NodeVersion };

/** The module a user imports, and the folder from which it is resolved. */
const packages: Partial<Record<SystemName, string>> = {
  stint: "stint",
  "graphile-worker": "graphile-worker",
  "pg-boss": "pg-boss",
  "bullmq-redis": "bullmq",
  "bullmq-postgres": "bullmq",
  dbos: "@dbos-inc/dbos-sdk",
};
const benchFolder = new URL("../", import.meta.url);
const run = promisify(execFile);

const node24: Cold = { name: "1 process, node 24", node: "24" };

export const cold = defineScenario<Cold>({
  name: "cold",
  what: "ms to import a system, until a worker may claim (connections, schema checks), and the same from the start of its process",
  variants: (quick) => [{ name: "1 process", node: "own" }, ...(quick ? [] : [node24])],
  includes: ({ system, config, variant: { node }, quick }) => {
    if (config !== "default" || system === "ceiling") return false;
    if (system === "stint") return true;
    return node === "own" && (!quick || system === "graphile-worker" || system === "pg-boss");
  },
  measure: async (bench, { system, variant, quick }) => {
    const node: NodeVersion = isPeer(system) ? "24" : variant.node;
    const keeper = await bench.spawn({ node });
    await keeper.call("prepare");
    const imports: number[] = [];
    const ready: number[] = [];
    const all: number[] = [];
    for (let time = 0; time < (quick ? 1 : 3); time++) {
      imports.push(await importMs(bench.nodes[node], system));
      const worker = await bench.spawn({ node });
      const { importMs: imported, openMs, readyMs } = worker.cold;
      const beganMs = nowMs();
      await worker.call("work");
      const startMs = nowMs() - beganMs;
      ready.push(imported + openMs + startMs);
      all.push(readyMs + startMs);
      await worker.kill();
    }
    return [
      { suffix: "import", unit: "ms", value: median(imports) },
      { suffix: "ready", unit: "ms", value: median(ready) },
      { suffix: "ready, from spawn", unit: "ms", value: median(all) },
    ];
  },
});

/** Measured in a process that imports nothing else. */
async function importMs(node: string, system: SystemName): Promise<number> {
  const script = `const t = performance.now(); await import("${packages[system]}"); console.log(performance.now() - t); process.exit()`;
  const cwd = fileURLToPath(isPeer(system) ? peersFolder : benchFolder);
  const { stdout } = await run(node, ["--input-type=module", "--eval", script], {
    cwd,
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  return Number(stdout);
}
