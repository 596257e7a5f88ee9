import { expect, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";

const greedy = defineJob("greedy", { payload: typed<null>(), maxTransactions: 2 });
const modest = defineJob("modest", { payload: typed<null>(), atomic: true });

test("a kind with maxTransactions leaves transactions for other kinds", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const opened = gate();
  let inside = 0;
  let most = 0;
  let finished = 0;
  const worker = stint.worker({
    pools: { default: 12 },
    handlers: [
      handle(
        greedy,
        async ({ complete }) =>
          await complete(async () => {
            inside += 1;
            most = Math.max(most, inside);
            await opened.opened;
            inside -= 1;
          }),
      ),
      handle(modest, () => {
        finished += 1;
      }),
    ],
  });
  for (let n = 0; n < 6; n++) await stint.enqueue(greedy, null);
  await worker.start();
  await until(() => inside === 2, { message: "two transactions are open" });
  await stint.enqueue(modest, null);
  await until(() => finished === 1, { message: "the other kind has a transaction" });
  opened.open();
  await until(async () => (await fresh.sql(`select from stint.history`)).length === 7, {
    message: "all have ended",
  });
  await worker.stop();
  expect(most).toBe(2);
});

test("maxTransactions that cannot work is refused", () => {
  for (const maxTransactions of [0, -1, 1.5, Number.NaN, 1_001])
    expect(() => defineJob("x", { payload: typed<null>(), maxTransactions })).toThrow("maxTransactions");
});
