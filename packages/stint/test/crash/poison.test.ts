import { expect, test } from "vitest";
import { entry } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import {
  bystander,
  expireLeases,
  scripted,
  startWorkerProcess,
  type WorkerProcess,
} from "../support/worker-process.ts";

test("a job that always kills its worker ends dead; its neighbours lose no attempt", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const poison = await stint.enqueue(scripted, { do: "die" }, { delay: "1ms" });
  const innocents = await stint.enqueueMany(
    Array.from({ length: 3 }, () => entry(bystander, { do: "hang" })),
  );

  // What a process manager does: start it again whenever it dies.
  const lives: WorkerProcess[] = [];
  const ended = async (): Promise<boolean> => {
    const left = await fresh.sql("select from stint.job limit 1");
    return left.length === 0;
  };
  while (!(await ended())) {
    const life = await startWorkerProcess(fresh, { worker: { lease: "1h" } });
    lives.push(life);
    let alive = true;
    void life.ended.then(() => (alive = false));
    await until(
      async () => {
        // An innocent job ends only once the poison's next run can no longer catch it.
        const { state } = (await stint.get(poison.id))!;
        if (state === "parked" || state === "dead") for (const { id } of innocents) life.go(id);
        return !alive || (await ended());
      },
      { message: "the worker dies, or everything has ended" },
    );
    // The process is dead, or has no job: no other lease ends.
    await expireLeases(fresh);
  }

  expect(lives.length).toBeLessThanOrEqual(5);
  expect(await stint.get(poison.id)).toMatchObject({
    state: "dead",
    crashes: 3,
    attempts: 0,
    reason: "worker died while running it",
  });
  for (const { id } of innocents) {
    const innocent = await stint.get(id);
    expect(innocent).toMatchObject({ state: "succeeded", attempts: 1 });
    expect(innocent!.crashes).toBeLessThanOrEqual(2);
  }
});
