import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createStint,
  defineDependency,
  defineJob,
  entry,
  handle,
  silentLogger,
  typed,
  type Stint,
} from "#stint/index.js";
import { migrate } from "#stint/db/migrate.js";
import { freshSchemaName } from "../support/database.ts";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { countedServer, type CountedServer } from "./counted-server.ts";
import { planFaults } from "./plan-faults.ts";

const work = defineJob("work", { payload: typed<{ n: number }>() });

let server: CountedServer;
let idler: Stint;
let idleSince: number;
// It idles while the other tests run: some of what it does comes only after ten seconds.
beforeAll(async () => {
  server = await countedServer();
  const schema = freshSchemaName();
  await migrate({ connection: server.url, schema });
  idler = createStint({ database: await server.urlAs("idler"), schema, logger: silentLogger });
  idleSince = performance.now();
  await idler
    .worker({ pools: { default: 10 }, signals: false, handlers: [handle(work, async () => undefined)] })
    .start();
});
afterAll(async () => {
  await idler.close();
  await server.remove();
});

test("one statement per third of a lease renews all jobs of a claim", async () => {
  const fresh = await freshSchema(server.url);
  const running = 20;
  const thirdMs = 3_000;
  await fresh.client().enqueueMany(Array.from({ length: running }, (_, n) => entry(work, { n })));
  const { opened, open } = gate();
  const worker = fresh.client({ database: await server.urlAs("keeper") }).worker({
    pools: { default: running },
    signals: false,
    lease: 3 * thirdMs,
    handlers: [handle(work, async () => await opened)],
  });
  const startedAt = performance.now();
  await worker.start();

  const renew = await until(
    async () => {
      const sent = (await server.sentBy("keeper"))["renew"];
      return sent !== undefined && sent.calls >= 3 && sent;
    },
    { message: "the leases were renewed three times" },
  );
  const thirds = (performance.now() - startedAt) / thirdMs;
  open();

  // The first renews nothing: it shows at the start that leases can be renewed.
  expect(renew).toMatchObject({ rows: running * (renew ? renew.calls - 1 : 0) });
  // One more when it starts to listen: it has no notification of earlier cancels.
  expect(renew && renew.calls).toBeLessThanOrEqual(thirds + 2);
});

test("no statement sorts or reads a whole table, for any feature of a job", async () => {
  const fresh = await freshSchema(server.url);
  const stint = fresh.client({ database: await server.urlAs("all-sorts"), jobs: [work] });
  const flaky = defineJob("flaky", { payload: typed<{ n: number }>() });
  const endless = defineJob("endless", { queue: "slow", payload: typed<null>() });
  const begun = gate();
  let done = 0;
  const worker = stint.worker({
    pools: { default: 20, slow: 2 },
    signals: false,
    lease: "1s",
    backoff: { base: 50, factor: 1, cap: 100, jitter: "none" },
    handlers: [
      handle(work, async ({ payload }) => {
        done += 1;
        return { twice: payload.n * 2 };
      }),
      handle(flaky, async ({ attempt }) => {
        if (attempt === 1) throw new Error("the first time it fails");
        done += 1;
      }),
      handle(endless, async ({ signal }) => {
        begun.open();
        await new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason as Error));
        });
      }),
    ],
  });
  await worker.start();
  const { id } = await stint.enqueue(endless, null);
  const many = Array.from({ length: 80 }, (_, n) => n);
  await Promise.all([
    ...many.map(async (n) => await stint.enqueue(work, { n }, { priority: n % 5, delay: n % 80 })),
    ...many.map(async (n) => await stint.enqueue(work, { n }, { dedupe: { key: `k${n}` } })),
    ...many.map(async (n) => await stint.enqueue(flaky, { n }, { key: `f${n}`, tags: ["a"] })),
  ]);
  await begun.opened;
  await until(() => done >= 240, { message: "all jobs are done" });
  // Claims begin at the floors once those that look before them have used up their share of the time: on a fast server, after many.
  while ((await server.sentBy("all-sorts"))["claim-onward"] === undefined)
    for (const n of many) await stint.enqueue(work, { n });
  await stint.cancel(id);
  await worker.stop();

  const plans = await server.plansOf("all-sorts");
  const seen = new Set(plans.map(({ name }) => name));
  expect([...seen]).toEqual(
    expect.arrayContaining([
      "claim",
      "claim-onward",
      "finish",
      "requeue",
      "promote",
      "renew",
      "idle-check",
      "enqueue_rows()",
    ]),
  );
  expect(planFaults(plans)).toEqual([]);
});

test("an idle worker sends few statements, and none sorts or reads a whole table", async () => {
  await until(async () => "unserved" in (await server.sentBy("idler")), {
    message: "the worker has looked for jobs that no worker serves",
  });
  const sent = await server.sentBy("idler");
  const seconds = (performance.now() - idleSince) / 1000;
  const total = Object.values(sent).reduce((sum, { calls }) => sum + calls, 0);

  // Forty to begin with: registering, the first round of each duty, and the first looks after work, which come ever later.
  expect(total).toBeLessThanOrEqual(40 + 0.3 * seconds);
  expect(planFaults(await server.plansOf("idler"))).toEqual([]);
});

test("a rate with room to spare costs at most one short statement for each claim", async () => {
  const fresh = await freshSchema(server.url);
  const api = defineDependency("api", { rate: { limit: 1_000_000_000, per: "1s" } });
  const call = defineJob("call", { payload: typed<{ n: number }>(), uses: [api] });
  await fresh.client().enqueueMany(Array.from({ length: 2_000 }, (_, n) => entry(call, { n })));
  const drained = gate();
  let ran = 0;
  const worker = fresh.client({ database: await server.urlAs("metered") }).worker({
    pools: { default: 10 },
    signals: false,
    handlers: [
      handle(call, () => {
        ran += 1;
        if (ran === 2_000) drained.open();
      }),
    ],
  });
  await worker.start();
  await drained.opened;
  await worker.stop();

  const sent = await server.sentBy("metered");
  const claims = Object.entries(sent).filter(([name]) => /^claim(-onward)?$/.test(name));
  const claimed = claims.reduce((sum, [, { calls }]) => sum + calls, 0);
  expect(sent["take-tokens-together"]!.calls).toBeLessThanOrEqual(claimed);
  for (const name of ["take-tokens", "take-places", "add-limit-keys"]) expect(sent[name]).toBeUndefined();
});
