/** Jobs that wait for one another in a circle would never start. They are refused, whichever way the circle would be closed. */
import { expect, test } from "vitest";
import { defineJob, entry, handle, InvalidOptionError, JobNotFoundError, typed } from "#stint/index.js";
import { newId } from "#stint/runtime/new-id.js";
import { sharedSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const part = defineJob("part", { payload: typed<number>() });
const other = defineJob("other", { payload: typed<number>() });

const shared = sharedSchema();

const refusal = (...ids: string[]) =>
  expect.objectContaining({ message: expect.stringContaining(`in a circle: ${ids.join(" → ")}`) });

test("jobs of one enqueue that wait for one another are refused, in SQL too", async () => {
  const fresh = shared();
  const stint = fresh.client();
  const [a, b, c] = [newId(), newId(), newId()];
  const circle: [string, string][] = [
    [a, b],
    [b, c],
    [c, a],
  ];
  const before = (await fresh.sql("select from stint.jobs")).length;

  const many = stint.enqueueMany(circle.map(([id, on]) => entry(part, 1, { id, after: [on] })));
  await expect(many).rejects.toBeInstanceOf(InvalidOptionError);
  await expect(many).rejects.toEqual(refusal(c, b, a, c));
  const jobs = circle.map(([id, on]) => ({ kind: "part", options: { queue: "default", id, after: [on] } }));
  const sql = fresh.sql(`select * from stint.enqueue_many('${JSON.stringify(jobs)}')`);
  await expect(sql).rejects.toEqual(refusal(c, b, a, c));

  expect(await fresh.sql("select from stint.jobs")).toHaveLength(before);
  expect(await fresh.sql(`select from stint.flow_edge where job_id in ('${a}', '${b}', '${c}')`)).toEqual([]);
});

test("a long graph in any order is no circle", async () => {
  const fresh = shared();
  const ids = Array.from({ length: 100 }, () => newId());
  const waiting = ids.map((id, index) =>
    entry(part, 1, { id, delay: "1h", after: ids.slice(index + 1, index + 3) }),
  );
  await expect(fresh.client().enqueueMany(waiting)).resolves.toHaveLength(100);
});

test("a job of a batch that waits for the callback of the batch is refused", async () => {
  const fresh = shared();
  const stint = fresh.client();
  const batch = await stint.batch([], { onComplete: entry(other, 1), open: true });
  const later = await stint.enqueue(other, 2, { after: [batch.callback] });
  const before = (await fresh.sql("select from stint.jobs")).length;

  const added = stint.flows.add(batch.id, [entry(part, 1), entry(part, 1, { after: [later] })]);
  await expect(added).rejects.toBeInstanceOf(InvalidOptionError);
  await expect(added).rejects.toThrow("in a circle");
  expect(await fresh.sql("select from stint.jobs")).toHaveLength(before);
});

test("a chain whose next job waits for a job that waits for the chain ends there", async () => {
  const fresh = shared();
  const stint = fresh.client();
  const step = defineJob("step", { payload: typed<{ after?: string }>() });
  const first = await stint.enqueue(step, {});
  const last = await stint.enqueue(other, 1, { after: [first] });
  await startWorker(stint, {
    handlers: [
      handle(step, ({ continueWith }) => continueWith(part, 1, { after: [last] })),
      handle(other, () => undefined),
    ],
  });

  await expect(stint.waitFor(first, { timeout: "20s" })).rejects.toThrow(
    /continuation was refused.*in a circle/,
  );
  expect((await stint.get(last.id))?.reason).toContain("which is dead");
});

test("a parent that would wait for a child in a circle is kept for review", async () => {
  const stint = shared().client();
  const parent = defineJob("parent", { payload: typed<number>() });
  const above = await stint.enqueue(parent, 1);
  const last = await stint.enqueue(other, 1, { after: [above] });
  await startWorker(stint, {
    handlers: [
      handle(parent, ({ spawn, waitForChildren }) => {
        spawn(part, 1, { after: [last] });
        return waitForChildren();
      }),
    ],
  });

  await until(async () => (await stint.get(above.id))?.parkReason === "review", { message: "it is parked" });
  expect((await stint.get(above.id))?.reason).toContain("in a circle");
});

test("onError report: a job that waits for a missing one fails alone", async () => {
  const stint = shared().client();
  const first = await stint.enqueue(part, 1, { delay: "1h" });
  const results = await stint.enqueueMany(
    [first.id, newId(), first.id].map((id) => entry(part, 1, { after: [id] })),
    { onError: "report" },
  );
  expect(results).toEqual([
    expect.objectContaining({ status: "created" }),
    expect.any(JobNotFoundError),
    expect.objectContaining({ status: "created" }),
  ]);
});
