import { describe, expect, test } from "vitest";
import { freshSchema } from "../support/fresh.ts";
import { scripted, entered, expireLeases, startWorkerProcess } from "../support/worker-process.ts";

/** Leases are long: only a test ends them. */
const worker = { lease: "1h" } as const;
const killed = { code: null, signal: "SIGKILL" };

describe("a worker killed with -9", () => {
  test("between claim and handler: the job runs on another worker, no attempt spent", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const first = await startWorkerProcess(fresh, { dieAt: "claimed", worker });
    const { id } = await stint.enqueue(scripted, { do: "succeed" });
    expect(await first.ended).toEqual(killed);

    await expireLeases(fresh);
    const second = await startWorkerProcess(fresh, { worker });
    const result = await stint.waitFor<(typeof scripted)["types"] & object>(id, { timeout: "60s" });

    expect(result).toEqual({ pid: second.pid, epoch: 2 });
    expect(entered(first, second)).toEqual([`${id}/2`]);
    expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 1, epoch: 2 });
    expect(await second.reported("rescued")).toMatchObject({ job: id, crashes: 1, state: "ready" });
  });

  test("during a handler: the job runs again, and a crash is counted, not an attempt", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const first = await startWorkerProcess(fresh, { worker });
    const { id } = await stint.enqueue(scripted, { do: "hang" });
    await first.reported("entered", id);
    first.kill("SIGKILL");
    expect(await first.ended).toEqual(killed);

    await expireLeases(fresh);
    const second = await startWorkerProcess(fresh, { worker });
    await second.reported("entered", id);
    second.go(id);

    expect(await stint.waitFor(id, { timeout: "60s" })).toEqual({ pid: second.pid, epoch: 2 });
    const job = await stint.get(id);
    expect(job).toMatchObject({ attempts: 1, crashes: 1, interruptions: 0 });
    expect(job?.log.map(({ epoch, outcome }) => [epoch, outcome])).toEqual([
      [1, "crashed"],
      [2, "succeeded"],
    ]);
  });

  test("between handler and settle: the job runs again, as its end was not recorded", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const first = await startWorkerProcess(fresh, { dieAt: "before-settle", worker });
    const { id } = await stint.enqueue(scripted, { do: "succeed" });
    expect(await first.ended).toEqual(killed);
    expect(await stint.get(id)).toMatchObject({ state: "running" });

    await expireLeases(fresh);
    const second = await startWorkerProcess(fresh, { worker });

    expect(await stint.waitFor(id, { timeout: "60s" })).toEqual({ pid: second.pid, epoch: 2 });
    expect(entered(first, second)).toEqual([`${id}/1`, `${id}/2`]);
    expect(await stint.get(id)).toMatchObject({ attempts: 1, crashes: 1 });
  });

  test("after the settle: the job has ended and never runs again", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const first = await startWorkerProcess(fresh, { dieAt: "settled", worker });
    const { id } = await stint.enqueue(scripted, { do: "succeed" });
    expect(await first.ended).toEqual(killed);
    expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0, epoch: 1 });

    const second = await startWorkerProcess(fresh, { worker });
    const next = await stint.enqueue(scripted, { do: "succeed" });
    await second.reported("settled", next.id);

    expect(entered(second)).toEqual([`${next.id}/1`]);
  });
});
