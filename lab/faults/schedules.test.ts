import { afterAll, beforeAll, expect, test } from "vitest";
import { firedOnce, series, type Series } from "../../packages/stint/test/schedules/series.ts";
import { unusedSchema } from "../../packages/stint/test/support/fresh.ts";
import { ownServer, type OwnServer } from "../../packages/stint/test/support/own-server.ts";
import { until } from "../../packages/stint/test/support/until.ts";
import {
  scripted,
  spawnWorkerProcess,
  startWorkerProcess,
  type WorkerProcess,
} from "../../packages/stint/test/support/worker-process.ts";

const schedules = 500;
const slots = Number(process.env["STINT_LAB_SLOTS"] ?? 100_000);

let server: OwnServer;
beforeAll(async () => {
  server = await ownServer();
});
afterAll(async () => {
  await server.remove();
});

const total = (all: readonly Series[]): number => all.reduce((sum, { fired }) => sum + fired, 0);

test("no slot of 100,000 is lost or doubled while workers and the database fail", async () => {
  const fresh = await unusedSchema(server.url);
  const stint = fresh.client();
  const start = async (): Promise<WorkerProcess> =>
    await startWorkerProcess(fresh, { worker: { pools: { default: 50 } } });
  let workers: WorkerProcess[] = await Promise.all([start(), start(), start()]);
  const rule = { every: "1s", job: scripted, payload: { do: "succeed" }, catchUp: "all" } as const;
  await stint.schedules.setMany(
    Array.from({ length: schedules }, (_, index) => ({ name: `s${index}`, ...rule })),
  );

  let fired = 0;
  for (let round = 0, goal = 0; goal < slots; round++) {
    goal = Math.min(slots, fired + 10 * schedules);
    const [victim, sleeper, ...rest] = workers as [WorkerProcess, WorkerProcess, ...WorkerProcess[]];
    victim.kill("SIGKILL");
    sleeper.kill("SIGSTOP");
    if (round % 5 === 4) {
      await (round % 2 === 0 ? server.stop("immediate") : server.kill9());
      await server.start();
    }
    workers = [...rest, spawnWorkerProcess(fresh, { worker: { pools: { default: 50 } } }), sleeper];
    await until(async () => total(await series(fresh)) >= goal, { deadlineMs: 300_000 });
    fired = total(await series(fresh));
    sleeper.kill("SIGCONT");
  }
  const page = async (after?: string): Promise<void> => {
    const { schedules: found, next } = await stint.schedules.list({
      limit: 1_000,
      ...(after === undefined ? {} : { after }),
    });
    for (const { name } of found) await stint.schedules.pause(name);
    if (next !== undefined) await page(next);
  };
  await page();

  const all = await series(fresh);
  expect(all).toHaveLength(schedules);
  expect(total(all)).toBeGreaterThanOrEqual(slots);
  expect(firedOnce(all)).toEqual([]);
}, 1_800_000);
