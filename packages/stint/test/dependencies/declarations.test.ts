/** Declarations of one dependency that differ, and dependencies that are deleted. */
import { expect, test } from "vitest";
import { defineDependency, defineJob, entry, handle, typed, type Stint, type Worker } from "#stint/index.js";
import { freshSchema } from "../support/fresh.ts";
import { until } from "../support/until.ts";

async function declare(stint: Stint, limit: number): Promise<Worker> {
  const api = defineDependency("api", { rate: { limit, per: "1h", burst: 1 } });
  const call = defineJob("call", { payload: typed<number>(), uses: [api] });
  const worker = stint.worker({ pools: { default: 2 }, handlers: [handle(call, () => undefined)] });
  await worker.start();
  return worker;
}

test("of two declarations of a dependency, the one that was declared last applies", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const limit = async (): Promise<number | undefined> =>
    (await stint.dependencies.get("api"))?.settings.rate?.limit;
  const workers = [await declare(stint, 10)];
  expect(await limit()).toBe(10);
  workers.push(await declare(stint, 20));
  expect(await limit()).toBe(20);
  // The same declaration again changes nothing; another one does, also the old one of a worker that starts again.
  workers.push(await declare(stint, 20));
  workers.push(await declare(stint, 10));
  expect(await limit()).toBe(10);
  for (const worker of workers) await worker.stop();
  const changes = await stint.dependencies.audit("api");
  expect(changes.map(({ action }) => action)).toEqual(Array.from({ length: 3 }, () => "declare-dependency"));

  // A change of the declaration adds no tokens: the bucket had one, whichever settings applied.
  const [row] = await fresh.sql(
    `select stint.tokens_of(d, d.credit_at)::integer as tokens from stint.dependency d`,
  );
  expect(row).toEqual({ tokens: 1 });
});

test("jobs that wait for a dependency run when it is deleted", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const uses = [defineDependency("api", { concurrency: 1, rate: { limit: 1, per: "1h", burst: 1 } })];
  const call = defineJob("call", { payload: typed<number>(), uses });
  const worker = stint.worker({ pools: { default: 2 }, handlers: [handle(call, () => undefined)] });
  await worker.start();
  const jobs = await stint.enqueueMany([1, 2, 3].map((n) => entry(call, n)));
  await until(async () => (await stint.dependencies.get("api"))?.waiting === 2, { message: "two wait" });
  await fresh.sql("delete from stint.dependency");
  await stint.waitFor(jobs);
  await worker.stop();

  for (const table of ["dependency_wait", "kind_dependency", "limit", "limit_place"])
    expect(await fresh.sql(`select * from stint.${table}`)).toEqual([]);
});
