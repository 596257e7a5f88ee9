import { describe, expect, test } from "vitest";
import { unusedSchema } from "../support/fresh.ts";
import { deed, entered, startWorkerProcess } from "../support/worker-process.ts";

const killed = { code: null, signal: "SIGKILL" };

describe("a worker killed with -9", () => {
  test("after its claim and before the handler: the job runs on another worker, no attempt spent", async () => {
    const fresh = await unusedSchema();
    const stint = fresh.client();
    const first = await startWorkerProcess(fresh, { dieAt: "claimed" });
    const { id } = await stint.enqueue(deed, { do: "succeed" });
    expect(await first.ended).toEqual(killed);

    const second = await startWorkerProcess(fresh);
    const result = await stint.waitFor<(typeof deed)["types"] & object>(id, { timeout: "20s" });

    expect(result).toEqual({ pid: second.pid, epoch: 2 });
    expect(entered(first, second)).toEqual([`${id}/2`]);
    expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 1, epoch: 2 });
    expect(await second.reported("rescued")).toMatchObject({ job: id, crashes: 1, state: "ready" });
  });

  test("in the middle of a handler: the job runs again, the crash counted apart from attempts", async () => {
    const fresh = await unusedSchema();
    const stint = fresh.client();
    const first = await startWorkerProcess(fresh);
    const { id } = await stint.enqueue(deed, { do: "hang" });
    await first.reported("entered", id);
    first.kill("SIGKILL");
    expect(await first.ended).toEqual(killed);

    const second = await startWorkerProcess(fresh);
    await second.reported("entered", id);
    second.go(id);

    expect(await stint.waitFor(id, { timeout: "20s" })).toEqual({ pid: second.pid, epoch: 2 });
    const job = await stint.get(id);
    expect(job).toMatchObject({ attempts: 1, crashes: 1, interruptions: 0 });
    expect(job?.log.map(({ epoch, outcome }) => [epoch, outcome])).toEqual([
      [1, "crashed"],
      [2, "succeeded"],
    ]);
  });

  test("after the handler and before the settle: the job runs again, for nobody can know that it was done", async () => {
    const fresh = await unusedSchema();
    const stint = fresh.client();
    const first = await startWorkerProcess(fresh, { dieAt: "before-settle" });
    const { id } = await stint.enqueue(deed, { do: "succeed" });
    expect(await first.ended).toEqual(killed);
    expect(await stint.get(id)).toMatchObject({ state: "running" });

    const second = await startWorkerProcess(fresh);

    expect(await stint.waitFor(id, { timeout: "20s" })).toEqual({ pid: second.pid, epoch: 2 });
    expect(entered(first, second)).toEqual([`${id}/1`, `${id}/2`]);
    expect(await stint.get(id)).toMatchObject({ attempts: 1, crashes: 1 });
  });

  test("after the settle: the job has ended and never runs again", async () => {
    const fresh = await unusedSchema();
    const stint = fresh.client();
    const first = await startWorkerProcess(fresh, { dieAt: "settled" });
    const { id } = await stint.enqueue(deed, { do: "succeed" });
    expect(await first.ended).toEqual(killed);
    expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0, epoch: 1 });

    const second = await startWorkerProcess(fresh);
    const next = await stint.enqueue(deed, { do: "succeed" });
    await second.reported("settled", next.id);

    expect(entered(second)).toEqual([`${next.id}/1`]);
  });
});
