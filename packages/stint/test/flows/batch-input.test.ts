import { expect, test } from "vitest";
import {
  defineJob,
  entry,
  InvalidOptionError,
  JobNotFoundError,
  typed,
  type EnqueueOptions,
} from "#stint/index.js";
import { sharedSchema } from "../support/fresh.ts";

const part = defineJob("part", { payload: typed<number>() });
const summary = defineJob("summary", { payload: typed<number>() });
const id = "0197a000-0000-7000-8000-000000000001";

const shared = sharedSchema();

test.each<[string, EnqueueOptions]>([
  ["id", { id }],
  ["dedupe", { dedupe: { key: "k" } }],
  ["debounce", { debounce: { key: "k", wait: "1s" } }],
  ["throttle", { throttle: { key: "k", every: "1s" } }],
])("a job of a batch with the option %s is refused", async (name, options) => {
  const fresh = shared();
  const stint = fresh.client();
  const open = await stint.batch([], { onComplete: entry(summary, 1), open: true });
  const count = (await fresh.sql("select from stint.jobs")).length;
  const refused = new RegExp(`\\[0\\]\\.${name}: cannot be given to a job of a batch`);

  const calls: (() => Promise<unknown>)[] = [
    () => stint.batch([entry(part, 1, options)], { onComplete: entry(summary, 1) }),
    () => stint.batch([entry(part, 1)], { onComplete: entry(summary, 1, options) }),
    () => stint.flows.add(open.id, [entry(part, 1, options)]),
  ];
  for (const call of calls) {
    const error = await Promise.resolve()
      .then(call)
      .catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(InvalidOptionError);
    expect((error as Error).message).toMatch(refused);
  }
  expect(await fresh.sql("select from stint.jobs")).toHaveLength(count);
});

test("the callback of a batch cannot wait for other jobs", async () => {
  const stint = shared().client();
  const other = await stint.enqueue(part, 1);
  const made = Promise.resolve().then(() =>
    stint.batch([entry(part, 1)], { onComplete: entry(summary, 1, { after: [other] }) }),
  );
  await expect(made).rejects.toThrow(/onComplete\[0\]\.after: cannot be given/);
});

test("closing a batch that does not exist is refused", async () => {
  const stint = shared().client();
  const plain = await stint.enqueue(part, 1);
  await expect(stint.flows.close(id)).rejects.toThrow(JobNotFoundError);
  await expect(stint.flows.close(plain.id)).rejects.toThrow(JobNotFoundError);
});
