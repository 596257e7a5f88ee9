import { expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { bystander, scripted, entered, expireLeases, startWorkerProcess } from "../support/worker-process.ts";

test("a worker paused past its lease cannot settle, reports it, and runs other jobs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  // Leases are long, and the test ends the one it means: on a busy machine a short one may run out before the pause.
  const worker = { lease: "1h" } as const;
  const paused = await startWorkerProcess(fresh, { worker });
  const { id } = await stint.enqueue(scripted, { do: "ignore" });
  await paused.reported("entered", id);
  paused.kill("SIGSTOP");
  await expireLeases(fresh);

  const other = await startWorkerProcess(fresh, { kinds: ["scripted"], worker });
  await other.reported("entered", id);
  other.go(id);
  expect(await stint.waitFor(id, { timeout: "60s" })).toEqual({ pid: other.pid, epoch: 2 });

  paused.go(id);
  paused.kill("SIGCONT");
  expect(await paused.reported("leaseLost", id)).toMatchObject({ epoch: 1 });
  await until(() => paused.errors().includes("the lease was lost"), { message: "the loss is in the log" });

  const job = await stint.get(id);
  expect(job).toMatchObject({
    state: "succeeded",
    result: { pid: other.pid, epoch: 2 },
    crashes: 1,
    attempts: 1,
  });
  const next = await stint.enqueue(bystander, { do: "succeed" });
  await paused.reported("settled", next.id);
  expect(entered(paused, other)).toEqual([`${id}/1`, `${next.id}/1`, `${id}/2`]);
});

test("a handler that blocks the event loop for three leases keeps its job and warns", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const worker = await startWorkerProcess(fresh, { worker: { lease: "8s" } });
  // The lease is longer than a machine stalls. Beside it, and not to blame:
  const beside = await stint.enqueue(bystander, { do: "hang" });
  await worker.reported("entered", beside.id);
  const { id } = await stint.enqueue(scripted, { do: "block", ms: 24_500 });
  await worker.reported("entered", id);
  const watching = await startWorkerProcess(fresh);

  await until(() => worker.errors().includes("event loop is blocked"), { message: "the thread warns" });
  const warning = worker
    .errors()
    .split("\n")
    .find((line) => line.includes("event loop is blocked"))!;
  expect(JSON.parse(warning)).toMatchObject({ level: "warn", kinds: ["scripted"] });
  // Said while it stood still, not afterwards.
  expect(worker.reports.map(({ event }) => event)).not.toContain("ran");

  expect(await stint.waitFor(id, { timeout: "60s" })).toEqual({ pid: worker.pid, epoch: 1 });
  expect((await worker.reported("blocked")).kinds).toEqual(["scripted"]);
  expect((await worker.reported("blocked")).ms).toBeGreaterThan(4_000);
  expect(entered(watching)).toEqual([]);
  expect(watching.reports.map(({ event }) => event)).not.toContain("rescued");
  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0 });
  expect(await stint.get(beside.id)).toMatchObject({ state: "running", crashes: 0, epoch: 1 });
});
