import { expect, test } from "vitest";
import { CancelledError, defineJob, handle, steps, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { abortOf, startWorker } from "../support/watch.ts";

const hang = defineJob("hang", { payload: typed<object>() });
const failing = defineJob("failing", { payload: typed<object>(), backoff: steps("1h") });

test("cancelling a running job from another client aborts its signal at once", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const running = gate();
  const aborted = gate<unknown>();
  const { seen } = await startWorker(stint, {
    // Long polls and leases: only the wake can be this quick.
    poll: "60s",
    lease: "10m",
    handlers: [
      handle(hang, async ({ signal }) => {
        running.open();
        aborted.open(await abortOf(signal));
        throw signal.reason;
      }),
    ],
  });
  const { id } = await stint.enqueue(hang, {});
  await running.opened;

  expect(await fresh.client().cancel(id, { reason: "no longer wanted" })).toBe("asked");

  expect(await aborted.opened).toBeInstanceOf(CancelledError);
  expect(await seen("settled")).toMatchObject({ id, outcome: "cancelled", state: "cancelled" });
  expect(await stint.get(id)).toMatchObject({
    state: "cancelled",
    reason: "no longer wanted",
    epoch: 1,
  });
});

test("the reason of a cancel stays if the job fails, is requeued or its worker dies", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ wake: "none" });
  const [running, goOn] = [gate(), gate()];
  const { seen } = await startWorker(stint, {
    handlers: [
      handle(failing, async () => {
        running.open();
        await goOn.opened;
        throw new Error("broken");
      }),
    ],
  });
  const failed = await stint.enqueue(failing, {});
  await running.opened;
  await stint.cancel(failed.id, { reason: "refunded" });
  goOn.open();
  await seen("settled");
  expect(await stint.get(failed.id)).toMatchObject({ state: "cancelled", reason: "refunded" });

  const orphan = await stint.enqueue(hang, {});
  // In a second: a living worker looks only for leases that ran out since it last looked.
  await fresh.sql(
    `update stint.job set state = 'running', worker = 'killed', attempts = 1, epoch = 1, lease_id = gen_random_uuid(),
       lease_until = clock_timestamp() + interval '1 second', claimed_at = now() where id = $1`,
    [orphan.id],
  );
  await stint.cancel(orphan.id, { reason: "customer left" });
  await seen("rescued");
  expect(await stint.get(orphan.id)).toMatchObject({ state: "cancelled", reason: "customer left" });
});

test("a running job that was cancelled and then fails is not retried", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({ wake: "none" });
  const running = gate();
  const fail = gate();
  const { seen } = await startWorker(stint, {
    handlers: [
      handle(failing, async () => {
        running.open();
        await fail.opened;
        throw new Error("broken");
      }),
    ],
  });
  const { id } = await stint.enqueue(failing, {});
  await running.opened;
  await fresh.sql("update stint.job set cancel_requested = true where id = $1", [id]);
  fail.open();

  expect(await seen("settled")).toMatchObject({ id, state: "cancelled" });
  expect(await stint.get(id)).toMatchObject({ state: "cancelled", log: [{ outcome: "failed" }] });
});

test("cancelling a waiting job ends it, and it never runs", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { id } = await stint.enqueue(hang, {});
  const delayed = await stint.enqueue(hang, {}, { delay: "1h" });

  expect(await stint.cancel(id)).toBe("cancelled");
  expect(await stint.cancel(delayed.id)).toBe("cancelled");

  expect(await stint.get(id)).toMatchObject({ state: "cancelled", attempts: 0, epoch: 0 });
  expect(await stint.get(delayed.id)).toMatchObject({ state: "cancelled", attempts: 0, epoch: 0 });
});

test("cancelling a retrying job ends it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { seen } = await startWorker(stint, {
    handlers: [
      handle(failing, () => {
        throw new Error("broken");
      }),
    ],
  });
  const { id } = await stint.enqueue(failing, {});
  await seen("settled", (event) => event.state === "retrying");

  expect(await stint.cancel(id)).toBe("cancelled");
  expect(await stint.get(id)).toMatchObject({
    state: "cancelled",
    attempts: 1,
    log: [{ outcome: "failed" }],
  });
});
