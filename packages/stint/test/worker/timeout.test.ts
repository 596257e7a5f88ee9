import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defineJob, handle, LeaseLostError, steps, TimedOutError, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { testFolder } from "../support/folder.ts";
import { gate } from "../support/gate.ts";
import { abortOf, startWorker } from "../support/watch.ts";
import { scripted, startWorkerProcess } from "../support/worker-process.ts";

const slow = defineJob("slow", { payload: typed<object>(), backoff: steps(0), timeout: 100 });
const quick = defineJob("quick", { payload: typed<object>(), queue: "other" });

describe("an attempt that takes longer than its timeout", () => {
  test("is aborted by its signal, recorded as timed out, and retried", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const reasons: unknown[] = [];
    const { seen } = await startWorker(stint, {
      handlers: [
        handle(slow, async ({ signal, attempt }) => {
          if (attempt > 1) return;
          reasons.push(await abortOf(signal));
          throw signal.reason;
        }),
      ],
    });
    const { id } = await stint.enqueue(slow, {});
    await stint.waitFor(id, { timeout: "60s" });

    expect(reasons).toEqual([expect.any(TimedOutError)]);
    expect(await seen("settled")).toMatchObject({ id, outcome: "timed-out", attempt: 1 });
    const job = await stint.get(id);
    expect(job).toMatchObject({ state: "succeeded", attempts: 2, crashes: 0 });
    expect(job?.log[0]).toMatchObject({
      outcome: "timed-out",
      error: { class: "TimedOutError", code: "TIMED_OUT" },
    });
  });

  test("and ignores its signal keeps its slot, is stuck, and can record nothing later", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const stuck = gate();
    const late = gate<unknown>();
    const { seen, all } = await startWorker(stint, {
      pools: { default: 1, other: 1 },
      abort: 50,
      handlers: [
        handle(slow, async ({ complete, attempt }) => {
          if (attempt > 1) return;
          await stuck.opened;
          await complete(async (tx) => void (await tx.query("select 1"))).catch(late.open);
        }),
        handle(quick, () => undefined),
      ],
    });
    const { id } = await stint.enqueue(slow, {});
    await seen("stuck", (event) => event.id === id);
    expect(await stint.get(id)).toMatchObject({ attempts: 1, crashes: 0, log: [{ outcome: "timed-out" }] });

    // The loop turns, yet the only slot of this queue is not given away.
    const other = await stint.enqueue(quick, {});
    await stint.waitFor(other, { timeout: "60s" });
    expect(await stint.get(id)).toMatchObject({ state: "ready", epoch: 1 });

    stuck.open();
    expect(await late.opened).toBeInstanceOf(LeaseLostError);
    await stint.waitFor(id, { timeout: "60s" });
    expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 2, epoch: 2, crashes: 0 });
    expect(all("leaseLost")).toEqual([]);
  });

  test("while it blocks the event loop is not renewed by the lease thread", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    const blocked = await startWorkerProcess(fresh, { worker: { timeout: "5s" } });
    const watching = await startWorkerProcess(fresh, { kinds: ["bystander"] });
    const file = join(await testFolder(), "go");
    const { id } = await stint.enqueue(scripted, { do: "block-until", file });
    await blocked.reported("entered", id);
    blocked.go(id);

    expect(await watching.reported("rescued")).toMatchObject({ job: id, crashes: 1 });
    await writeFile(file, "");
    expect(await blocked.reported("leaseLost", id)).toMatchObject({ epoch: 1 });
  });
});
