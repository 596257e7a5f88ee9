/** Jobs under two limits, of which either one may be full. */
import { expect, test } from "vitest";
import { defineJob, entry, handle, typed } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

test("a long row of jobs does not move to and fro between two limits", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await fresh.sql("create table stint.move (job uuid)");
  await fresh.sql(
    `create function stint.note_move() returns trigger language plpgsql as $$
     begin
       insert into stint.move values (new.job_id);
       return null;
     end $$`,
  );
  await fresh.sql(
    `create trigger note_move after update on stint.limit_place for each row
     when (old.key <> new.key) execute function stint.note_move()`,
  );
  const call = defineJob("call", {
    payload: typed<{ account: string }>(),
    limits: [
      { key: ({ account }) => account, max: 2 },
      { name: "all", max: 3 },
    ],
  });
  const jobs = 240;
  await stint.enqueueMany(
    Array.from({ length: jobs }, (_, n) => entry(call, { account: `a${Math.floor(n / 40) % 3}` })),
  );
  let most = 0;
  let running = 0;
  await startWorker(stint, {
    pools: { default: 12 },
    handlers: [
      handle(call, async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise(setImmediate);
        running -= 1;
      }),
    ],
  });
  await until(async () => (await fresh.sql("select from stint.job")).length === 0, {
    message: "all have ended",
    deadlineMs: 120_000,
  });
  expect(most).toBeLessThanOrEqual(3);
  expect(await fresh.sql("select from stint.limit_place")).toEqual([]);
  const [row] = await fresh.sql<{ moves: number }>("select count(*)::integer as moves from stint.move");
  expect(row!.moves).toBeLessThanOrEqual(4 * jobs);
});
