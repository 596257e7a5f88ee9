import { expect, test } from "vitest";
import { defineJob, handle, PermanentError, typed, type HandlerContext } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { rescue } from "#stint/sql/rescue.js";
import { gate } from "../support/gate.ts";
import { startWorker } from "./support.ts";

const series = defineJob("series", { payload: typed<{ n: number }>(), key: () => "user:7" });
const dayMs = 86_400_000;

type Row = { id: string; state: string; payload: { n: number }; run_at: Date };
const jobs = async (fresh: Fresh): Promise<Row[]> =>
  await fresh.sql<Row>("select id, state, payload, run_at from stint.jobs order by created_at, id");

async function serve(
  fresh: Fresh,
  run: (context: HandlerContext<{ n: number }>) => unknown,
  attempts = 1,
): Promise<ReturnType<Fresh["client"]>> {
  const stint = fresh.client();
  await startWorker(stint, { attempts, backoff: () => 0, handlers: [handle(series, run as never)] });
  return stint;
}

test("again enqueues the next run in the statement that records the success", async () => {
  const fresh = await freshSchema();
  const stint = await serve(
    fresh,
    async ({ again, payload }) => await again({ in: "24h", payload: { n: payload.n + 1 } }),
  );
  const { id } = await stint.enqueue(series, { n: 1 }, { tags: ["a"], tenant: "t", attempts: 3 });

  await stint.waitFor(id, { timeout: "60s" });
  const [, next, ...rest] = await jobs(fresh);
  expect(rest).toEqual([]);
  expect(next).toMatchObject({ state: "scheduled", payload: { n: 2 } });
  expect(Math.abs(next!.run_at.getTime() - Date.now() - dayMs)).toBeLessThan(60_000);
  expect(await stint.get(next!.id)).toMatchObject({
    key: "user:7",
    tags: ["a"],
    tenant: "t",
    maxAttempts: 3,
  });
});

test("the next run keeps the dedupe key of its predecessor, until finished", async () => {
  const fresh = await freshSchema();
  let runs = 0;
  const stint = await serve(fresh, async ({ again, payload }) => {
    runs += 1;
    await again({ in: runs < 5 ? 1 : "24h", payload: { n: payload.n + 1 } });
  });
  const dedupe = { until: "finished" } as const;
  await stint.enqueue(series, { n: 1 }, { dedupe });

  await until(async () =>
    (await jobs(fresh)).some(({ payload, state }) => payload.n === 6 && state === "scheduled"),
  );
  const repeated = await stint.enqueue(series, { n: 99 }, { dedupe });
  const all = await jobs(fresh);
  expect(all.map(({ payload }) => payload.n)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(repeated).toMatchObject({ created: false, id: all.at(-1)!.id });
});

test("a run that dies has its next run, and a replay of it makes no second one", async () => {
  const fresh = await freshSchema();
  const stint = await serve(fresh, async ({ again }) => {
    await again({ in: "24h" });
    throw new PermanentError("no");
  });
  const { id } = await stint.enqueue(series, { n: 1 });
  await until(async () => (await stint.get(id))?.state === "dead");
  expect((await jobs(fresh)).map(({ state }) => state).sort()).toEqual(["dead", "scheduled"]);

  await stint.replay(id, { reason: "once more" });
  await until(async () => (await stint.get(id))?.run === 2 && (await stint.get(id))?.state === "dead");
  expect((await jobs(fresh)).map(({ state }) => state).sort()).toEqual(["dead", "scheduled"]);
});

test("the latest call counts, and an attempt that does not call it ends the series", async () => {
  const fresh = await freshSchema();
  const stint = await serve(
    fresh,
    async ({ again, attempt, payload }) => {
      if (payload.n === 1) {
        await again({ in: "1h" });
        await again({ in: "48h" });
      } else if (attempt === 1) {
        await again({ in: "1h" });
        throw new Error("no");
      }
    },
    3,
  );
  const first = await stint.enqueue(series, { n: 1 });
  const second = await stint.enqueue(series, { n: 2 });
  await stint.waitFor(first.id, { timeout: "60s" });
  await stint.waitFor(second.id, { timeout: "60s" });

  const live = (await jobs(fresh)).filter(({ state }) => state === "scheduled");
  expect(live).toHaveLength(1);
  expect(live[0]!.run_at.getTime() - Date.now()).toBeGreaterThan(1.9 * dayMs);
});

test("bad input of again is refused, and a lost lease plans nothing", async () => {
  const fresh = await freshSchema();
  const errors: string[] = [];
  const stint = await serve(fresh, async ({ again, id }) => {
    const wrong = [
      {},
      { in: "1h", at: new Date() },
      { in: "soon" },
      { at: new Date(NaN) },
      { inn: "1h" },
      { in: "1h", payload: 1n },
    ];
    for (const input of wrong) await again(input as never).catch((error: Error) => errors.push(error.name));
    await fresh.sql("update stint.job set lease_id = gen_random_uuid() where id = $1", [id]);
    await again({ in: "1h" }).catch((error: Error) => errors.push(error.name));
  });
  await stint.enqueue(series, { n: 1 });

  await until(() => errors.length === 7);
  expect(errors).toEqual([
    ...Array<string>(5).fill("InvalidOptionError"),
    "InvalidPayloadError",
    "LeaseLostError",
  ]);
  expect(await fresh.sql("select from stint.next_run")).toEqual([]);
});

test("a run whose worker dies for the last time has its next run", async () => {
  const fresh = await freshSchema();
  const hold = gate();
  let planned = false;
  const stint = await serve(fresh, async ({ again }) => {
    await again({ in: "24h" });
    planned = true;
    await hold.opened;
  });
  const { id } = await stint.enqueue(series, { n: 1 }, { maxCrashes: 1 });
  await until(() => planned);
  await until(async () => {
    // Each time: the worker lives, and may renew the lease in between.
    await fresh.sql(
      "update stint.job set lease_until = clock_timestamp() - interval '1 second' where id = $1 and state = 'running'",
      [id],
    );
    await rescue(fresh.db, { limit: 10, maxCrashes: 1 });
    return (await stint.get(id))?.state === "dead";
  });
  hold.open();

  expect((await jobs(fresh)).map(({ state }) => state).sort()).toEqual(["dead", "scheduled"]);
});
