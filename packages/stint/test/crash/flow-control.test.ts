/**
 * Limits, ordered keys, buckets, quotas and strict admission at once, while workers and producers are killed and paused. `npm run lab:flow-control` runs it
 * with 100,000 jobs.
 */
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { entry } from "#stint/index.js";
import { byKey, idleTimes, mostAtOnce, recordFlow, runs, type Run } from "../support/flow-control-history.ts";
import {
  api,
  concurrency,
  maxDepth,
  maxDepthOfTenant,
  maxOfKey,
  maxOfKind,
  maxRoomy,
  quota,
  rate,
  waiting,
} from "../support/flow-control-kinds.ts";
import { unusedSchema, type Fresh } from "../support/fresh.ts";
import { killInTurn, killInTurnMs } from "../support/kill-in-turn.ts";
import { inLab } from "../support/lab.ts";
import { overshoot, tokenHistory } from "../support/token-history.ts";
import { builtProgram, startWorkerProcess, type WorkerProcess } from "../support/worker-process.ts";

const fixture = (name: string): string => fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url));
const jobs = Number(process.env["STINT_TEST_FLOW_JOBS"] ?? (inLab ? 10_000 : 150));
const produced = Math.floor(jobs / 5);
const kills = Math.min(60, Math.ceil(jobs / 100));
const keys = inLab ? 8 : 3;
/** A free place is taken within this time, although its worker may be killed or paused: the stated bound is 30 s, on a machine that is not overloaded. */
const longestIdleMs = 60_000;

async function enqueueWaiting(fresh: Fresh): Promise<void> {
  const stint = fresh.client({ dependencies: [api] });
  const numbers = Array.from({ length: jobs - produced }, (_, n) => n);
  for (let first = 0; first < numbers.length; first += 500)
    await stint.enqueueMany(
      numbers.slice(first, first + 500).map((n) => {
        const payload = { key: `k${Math.floor(n / 6) % keys}`, n, ms: n % 7, fails: n % 31 === 0 };
        return entry(waiting[n % waiting.length]!, payload);
      }),
    );
}

/** Two processes that enqueue to the strict queues. `disturb` kills one of them while the other one is paused. */
async function startProducers(fresh: Fresh): Promise<{ disturb: (kill: number) => Promise<void> }> {
  const program = builtProgram(fixture("producer-process.mjs"));
  const half = Math.floor(produced / 2);
  const start = async (which: number): Promise<WorkerProcess> =>
    await startWorkerProcess(fresh, {
      program,
      env: {
        STINT_TEST_FROM: String(which === 0 ? 0 : half),
        STINT_TEST_TO: String(which === 0 ? half : produced),
      },
    });
  const producers = [await start(0), await start(1)];
  return {
    disturb: async (kill) => {
      const [doomed, paused] = [kill % 2, (kill + 1) % 2];
      producers[paused]!.kill("SIGSTOP");
      producers[doomed]!.kill("SIGKILL");
      await producers[doomed]!.ended;
      producers[doomed] = await start(doomed);
      producers[paused]!.kill("SIGCONT");
    },
  };
}

/** The first start of each job of a key, by its number, is in the order of the numbers. */
function firstStarts(of: readonly Run[]): number[] {
  return [...new Set(of.map(({ n }) => n))];
}

test(
  "no limit, order, bucket, quota or depth is exceeded, and no job is forgotten",
  { timeout: killInTurnMs },
  async () => {
    const fresh = await unusedSchema();
    const settings = fresh.client().queueSettings;
    await settings.set(
      "strict",
      { admission: { maxDepth: maxDepth.strict, tenant: { maxDepth: maxDepthOfTenant }, strict: true } },
      { reason: "test" },
    );
    await settings.set(
      "shed",
      { admission: { maxDepth: maxDepth.shed, policy: "shed", strict: true } },
      { reason: "test" },
    );
    await recordFlow(fresh);
    await enqueueWaiting(fresh);
    const { disturb } = await startProducers(fresh);
    await killInTurn(fresh, {
      program: fixture("flow-control-process.mjs"),
      processes: inLab ? 3 : 2,
      jobs,
      kills,
      pools: { default: 20, strict: 3, shed: 2 },
      meanwhile: disturb,
    });

    const all = await runs(fresh);
    const of = (...kinds: string[]): Run[] => all.filter(({ kind }) => kinds.includes(kind));
    const capped = byKey(of("capped"));
    const ordered = [...byKey(of("blocking")), ...byKey(of("passing"))];
    expect(Math.max(...capped.map(mostAtOnce))).toBeLessThanOrEqual(maxOfKey);
    expect(mostAtOnce(of("capped"))).toBeLessThanOrEqual(maxOfKind);
    expect(mostAtOnce(of("roomy"))).toBeLessThanOrEqual(maxRoomy);
    expect(mostAtOnce(of("metered", "costly"))).toBeLessThanOrEqual(concurrency);

    expect(ordered.map(mostAtOnce)).toEqual(ordered.map(() => 1));
    for (const key of ordered) expect(firstStarts(key)).toEqual(firstStarts(key).sort((a, b) => a - b));
    // Where the head blocks, all runs of a job are over before the next job starts: the numbers never go back.
    for (const key of byKey(of("blocking")))
      expect(key.map(({ n }) => n)).toEqual(key.map(({ n }) => n).sort((a, b) => a - b));

    const history = await tokenHistory(fresh);
    expect(overshoot(history, rate)).toBeLessThanOrEqual(0);
    const windows = new Map<string, number>();
    for (const { window, used } of history) windows.set(window, (windows.get(window) ?? 0) + used);
    expect(Math.max(...windows.values())).toBeLessThanOrEqual(quota.limit);
    const spent = history.reduce((sum, { used }) => sum + used, 0);
    // Each start has its own tokens. Those of killed processes may be lost.
    expect(spent).toBeGreaterThanOrEqual(of("metered").length + 3 * of("costly").length);

    const depths = await fresh.sql<{ queue: string; depth: number; of_tenant: number; commits: number }>(
      `select queue, max(depth) as depth, max(of_tenant) as of_tenant, count(*)::integer as commits from stint.depth_history group by queue order by queue`,
    );
    expect(depths.map(({ queue }) => queue)).toEqual(["shed", "strict"]);
    expect(depths[0]!.depth).toBeLessThanOrEqual(maxDepth.shed);
    expect(depths[1]!.depth).toBeLessThanOrEqual(maxDepth.strict);
    expect(depths[1]!.of_tenant).toBeLessThanOrEqual(maxDepthOfTenant);

    const ended = await fresh.sql<{ state: string; count: number }>(
      `select case when state = 'cancelled' and reason like 'shed:%' then 'shed' else state::text end as state, count(*)::integer as count
       from stint.history group by 1 order by 1`,
    );
    const count = (state: string): number => ended.find((row) => row.state === state)?.count ?? 0;
    expect(count("succeeded") + count("shed")).toBe(jobs);
    const left = `select from stint.limit_place union all select from stint.dependency_wait union all select from stint.admission_check`;
    expect(await fresh.sql(left)).toEqual([]);

    const idle = [
      ...idleTimes(of("capped"), { key: maxOfKey, all: maxOfKind }),
      ...idleTimes(of("roomy"), { key: maxRoomy, all: maxRoomy }),
      ...ordered.flatMap((key) => idleTimes(key, { key: 1, all: 1 })),
    ].sort((a, b) => a - b);
    expect(idle.at(-1)).toBeLessThanOrEqual(longestIdleMs);
    if (inLab) {
      const at = (share: number): number => Math.round(idle[Math.floor((idle.length - 1) * share)] ?? 0);
      const figures = {
        jobs,
        kills,
        ended,
        depths,
        runs: all.length,
        killedRuns: all.filter(({ killed }) => killed).length,
        overshoot: overshoot(history, rate),
        mostInQuota: Math.max(...windows.values()),
        windows: windows.size,
        spent,
        idleMs: { p50: at(0.5), p95: at(0.95), p99: at(0.99), p999: at(0.999), max: at(1) },
      };
      process.stderr.write(`${JSON.stringify(figures)}\n`);
    }
  },
);
