import { expect, test } from "vitest";
import { deferred } from "#stint/cli/deferred.js";
import { Output } from "#stint/cli/output.js";
import { ProcessGroup } from "#stint/cli/processes/process-group.js";
import type { Ending, WorkerProcess } from "#stint/cli/processes/worker-process.js";
import { until } from "../support/until.ts";

/** A process that the test starts and ends. */
type Fake = WorkerProcess & { readonly number: number; readonly stops: boolean[]; serve(): Promise<void> } & {
  end(ending?: Ending): Promise<void>;
};

/** Lets the group react to what has just happened. */
const settled = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

function fake(number: number): Fake {
  const [serving, ended] = [deferred<boolean>(), deferred<Ending>()];
  const made = {
    number,
    stops: [] as boolean[],
    serving: serving.promise,
    ended: ended.promise,
    startedAt: performance.now(),
    isServing: false,
    wasKilled: false,
    stop: (hurry = false): void => void made.stops.push(hurry),
    serve: async (): Promise<void> => {
      made.isServing = true;
      serving.resolve(true);
      await settled();
    },
    end: async (ending: Ending = { code: 0 }): Promise<void> => {
      made.isServing = false;
      serving.resolve(false);
      ended.resolve(ending);
      await settled();
    },
  };
  return made as unknown as Fake;
}

async function group(size: number, servesWithinMs = 60_000) {
  const started: Fake[] = [];
  const made = new ProcessGroup({
    out: new Output({ json: true }),
    size,
    servesWithinMs,
    start: (number) => {
      const process = fake(number);
      started.push(process);
      return process;
    },
  });
  const exitCode = made.run();
  await started[0]?.serve();
  for (const process of started.slice(1)) await process.serve();
  const stopped = async (): Promise<number> => {
    made.stop();
    for (const process of started) await process.end();
    return await exitCode;
  };
  return { group: made, started, stopped, numbers: () => made.places.map(({ number }) => number) };
}

test("processes that do not serve stop first, then those with the highest numbers", async () => {
  const { group: made, started, numbers, stopped } = await group(3);
  made.resize(5);
  await started[4]!.serve();
  // Number 4 is still being started.
  made.resize(4);
  expect(numbers()).toEqual([1, 2, 3, 5]);
  expect(started[3]!.stops).toEqual([false]);
  made.resize(2);
  expect(numbers()).toEqual([1, 2]);
  expect(started.map(({ stops }) => stops.length)).toEqual([0, 0, 1, 1, 1]);
  expect(await stopped()).toBe(0);
});

test("a process that still drains keeps its number, and no other follows it", async () => {
  const { group: made, started, numbers, stopped } = await group(2);
  made.resize(1);
  made.resize(2);
  expect(numbers()).toEqual([1, 3]);
  await started[1]!.end({ code: 0 });
  expect(started.map(({ number }) => number)).toEqual([1, 2, 3]);
  expect(await stopped()).toBe(0);
});

test("a restart stops the new process of a place that was removed meanwhile", async () => {
  const { group: made, started, stopped } = await group(2);
  made.restart();
  await settled();
  await started[2]!.serve();
  await started[0]!.end();
  // The second place is being replaced.
  expect(started.map(({ number }) => number)).toEqual([1, 2, 1, 2]);
  made.resize(1);
  await started[1]!.end();
  await started[3]!.serve();
  expect(started[3]!.stops).toEqual([false]);
  await started[3]!.end();
  expect(started).toHaveLength(4);
  expect(await stopped()).toBe(0);
});

test("a new process that never serves is stopped, and the next restart begins", async () => {
  const { group: made, started, stopped } = await group(1, 1);
  made.restart();
  await until(() => started[1]?.stops.length === 1, { message: "the new process is stopped" });
  expect(started[0]!.stops).toEqual([]);
  made.restart();
  await until(() => started.length === 3, { message: "the next restart begins" });
  expect(await stopped()).toBe(0);
});

test("a stop also ends what drains already, and no change of the number follows it", async () => {
  const { group: made, started, stopped } = await group(2);
  made.resize(1);
  const exitCode = stopped();
  made.resize(9);
  expect(started).toHaveLength(2);
  expect(started[1]!.stops).toEqual([false, false]);
  expect(await exitCode).toBe(0);
});
