import type { Fresh } from "./fresh.ts";
import { inLab } from "./lab.ts";
import { until } from "./until.ts";
import { builtProgram, startWorkerProcess, type WorkerProcess } from "./worker-process.ts";

/** How long a test with `killInTurn` may take. */
export const killInTurnMs = inLab ? 3_600_000 : 240_000;

/**
 * Runs all jobs of a schema in worker processes. Again and again one of them is killed with -9 while another is paused. `stint.death` has the times
 * of the kills. Resolves when every job has ended.
 */
export async function killInTurn(
  fresh: Fresh,
  given: {
    program: string;
    processes: number;
    jobs: number;
    kills: number;
    pools?: Record<string, number>;
    /** Called while one process is dead and another one is paused. */
    meanwhile?: (kill: number) => Promise<void>;
  },
): Promise<void> {
  const { processes, jobs, kills, pools = { default: 6 }, meanwhile } = given;
  const program = builtProgram(given.program);
  const start = async (): Promise<WorkerProcess> =>
    await startWorkerProcess(fresh, {
      program,
      worker: { pools, lease: "1h", rescueEvery: 300, maxCrashes: 100 },
    });
  const ended = async (): Promise<number> => {
    await expireDead(fresh);
    const [row] = await fresh.sql<{ count: number }>(`select count(*)::integer as count from stint.history`);
    return row!.count;
  };
  await fresh.sql(`create table if not exists stint.death (pid integer, at timestamptz)`);
  const workers: WorkerProcess[] = [];
  while (workers.length < processes) workers.push(await start());
  for (let kill = 1; kill <= kills; kill++) {
    await until(async () => (await ended()) >= (jobs * kill) / (kills + 2), {
      message: `some jobs have ended before kill ${kill}`,
      deadlineMs: inLab ? 600_000 : 60_000,
    });
    const paused = workers[(kill + 1) % workers.length]!;
    paused.kill("SIGSTOP");
    const doomed = workers[kill % workers.length]!;
    doomed.kill("SIGKILL");
    await doomed.ended;
    await fresh.sql(`insert into stint.death values ($1, clock_timestamp())`, [doomed.pid]);
    await meanwhile?.(kill);
    workers[kill % workers.length] = await start();
    paused.kill("SIGCONT");
  }
  await until(async () => (await ended()) === jobs, {
    message: "every job has ended",
    deadlineMs: inLab ? 1_800_000 : 120_000,
  });
}

/** End the leases of killed processes only: a paused one keeps its jobs, however slow the machine is. */
async function expireDead(fresh: Fresh): Promise<void> {
  await fresh.sql(
    `update stint.job j set lease_until = clock_timestamp()
     from stint.worker w join stint.death d on d.pid = w.pid
     where j.state = 'running' and j.worker = w.id and j.lease_until > clock_timestamp()`,
  );
}
