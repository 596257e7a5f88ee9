import { expect, onTestFinished, test } from "vitest";
import { defineJob, entry, handle, steps, typed } from "#stint/index.js";
import { adminClient } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { onPg } from "../support/transactions.ts";
import { until } from "../support/until.ts";

const charge = defineJob("charge", { payload: typed<{ order: number }>(), backoff: steps(0) });
const receipt = defineJob("receipt", { payload: typed<{ order: number }>(), queue: "mail" });
const survey = defineJob("survey", { payload: typed<{ order: number }>(), queue: "mail" });

test("a successor runs after its job has succeeded, and its own successor after it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const ran: string[] = [];
  let failures = 1;
  const worker = stint.worker({
    pools: { default: 2, mail: 2 },
    handlers: [
      handle(charge, () => {
        ran.push("charge");
        if (failures-- > 0) throw new Error("try again");
      }),
      handle(receipt, ({ payload }) => void ran.push(`receipt ${payload.order}`)),
      handle(survey, ({ payload }) => void ran.push(`survey ${payload.order}`)),
    ],
  });
  await worker.start();

  const order = 7;
  const last = entry(survey, { order });
  await stint.enqueue(charge, { order }, { successor: entry(receipt, { order }, { successor: last }) });
  await until(() => ran.includes(`survey ${order}`), { message: "the last of three runs" });
  await worker.stop();

  expect(ran).toEqual(["charge", "charge", "receipt 7", "survey 7"]);
});

test("in a transaction a successor commits with its job, or not at all", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const successor = entry(receipt, { order: 1 });
  const client = await adminClient(fresh.url);
  onTestFinished(() => client.end());
  await onPg(client, async () => {
    await stint.in(client).enqueue(charge, { order: 1 }, { successor });
    throw new Error("rolled back");
  }).catch(() => undefined);
  expect(await fresh.sql(`select from stint.follow_up`)).toEqual([]);

  await onPg(client, async () => void (await stint.in(client).enqueue(charge, { order: 1 }, { successor })));
  expect(await fresh.sql(`select from stint.follow_up`)).toHaveLength(1);
});

test.each([
  ["a successor that entry() did not make", "receipt", /successor: must be made by entry/],
  ["a successor with an id", entry(receipt, { order: 1 }, { id: "x" }), /successor\.id: cannot be given/],
  [
    "a successor with a dedupe key",
    entry(receipt, { order: 1 }, { dedupe: { key: "k" } }),
    /successor\.dedupe: cannot be given/,
  ],
  [
    "a successor with an option that does not exist",
    entry(receipt, { order: 1 }, { prio: 1 } as object),
    /prio: is not an option/,
  ],
])("%s is refused, and nothing is written", async (_, successor, message) => {
  const fresh = await freshSchema();
  const stint = fresh.client();

  await expect(stint.enqueue(charge, { order: 1 }, { successor: successor as never })).rejects.toThrow(
    message,
  );
  expect(await fresh.sql(`select from stint.job`)).toEqual([]);
});
