import { expect, test } from "vitest";
import { registerWorker } from "#stint/sql/workers.js";
import type { KindView } from "#stint/inspect/types.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { findingsOf } from "./support.ts";

async function worker(
  fresh: Fresh,
  id: string,
  version = "1.0.0",
  kinds: readonly string[] = [],
): Promise<void> {
  await registerWorker(fresh.db, { id, host: "web-1", pid: 42, version, pools: { mail: 3 }, kinds });
}

test("a worker that stopped responding is reported; a sleeping one is not", async () => {
  const fresh = await freshSchema();
  for (const id of ["lives", "silent", "asleep"]) await worker(fresh, id);
  await fresh.sql(
    "update stint.worker set seen_at = now() - interval '5 minutes', asleep = id = 'asleep' where id <> 'lives'",
  );

  expect(await findingsOf(fresh, "workers")).toMatchObject([
    {
      level: "warning",
      title: "A worker stopped responding",
      what: expect.stringContaining("silent on web-1, pid 42, no heartbeat for 5 min"),
    },
  ]);
});

test("workers of two versions are reported", async () => {
  const fresh = await freshSchema();
  await worker(fresh, "old", "1.0.0");
  await worker(fresh, "new", "1.1.0");

  expect(await findingsOf(fresh, "workers")).toMatchObject([
    { level: "warning", what: "1.0.0: old; 1.1.0: new" },
  ]);
});

test("waiting jobs of an unserved kind are an error until a worker serves it", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  await fresh.sql("select stint.enqueue('send-receipt', '{}', '{\"queue\": \"mail\"}')");
  await fresh.sql("update stint.job set run_at = now() - interval '3 minutes'");
  await stint.close();

  expect(await findingsOf(fresh, "kinds")).toMatchObject([
    {
      level: "error",
      what: expect.stringContaining("kind send-receipt in queue mail, the oldest for 3 min"),
    },
  ]);

  await worker(fresh, "helps", "1.0.0", ["send-receipt"]);
  expect(await findingsOf(fresh, "kinds")).toEqual([]);
});

test("expired leases that were not rescued are an error", async () => {
  const fresh = await freshSchema();
  await fresh.sql("select stint.enqueue('send-receipt', '{}', '{\"queue\": \"mail\"}')");
  await fresh.sql(
    "update stint.job set state = 'running', lease_id = gen_random_uuid(), lease_until = now() - interval '10 minutes', worker = 'gone'",
  );

  expect(await findingsOf(fresh, "workers")).toMatchObject([
    { level: "error", what: expect.stringContaining("1 job of worker gone, overdue for 10 min") },
  ]);
});

test("settings that match no queue are reported, with the queue that is meant", async () => {
  const fresh = await freshSchema();
  const set = async (...names: string[]): Promise<void> => {
    for (const name of names)
      await fresh.sql("select stint.set_queue($1, '{\"targetAge\": 1000}', 'promised', 'ann')", [name]);
  };
  await set("paymnts", "tenant-*", "*");
  expect(await findingsOf(fresh, "queues")).toEqual([]);

  await fresh.sql("select stint.enqueue('pay', '{}', '{\"queue\": \"payments\"}')");
  await worker(fresh, "serves");
  await set("import-7", "mail");
  await fresh.sql(`update stint.worker set pools = '{"import-*": 2, "mail": 1}'`);

  expect((await findingsOf(fresh, "queues")).map(({ level, what }) => `${level}: ${what}`)).toEqual([
    "warning: paymnts; did you mean payments?",
    "warning: tenant-*",
  ]);
});

test("a backlog of kinds that a worker of the queue does not serve is reported", async () => {
  const fresh = await freshSchema();
  await worker(fresh, "serves");
  await fresh.sql(`update stint.worker set pools = '{"mail": 2, "tenant-*": 1}', kinds = array['send']`);
  const arrive = async (queue: string, kind: string, live: number): Promise<unknown> =>
    await fresh.sql(
      `insert into stint.tally_delta (queue, kind, priority, live) values ($1, $2, 0, $3), ($1, $2, 5, 1)`,
      [queue, kind, live],
    );
  await arrive("mail", "send", 90_000);
  await arrive("mail", "import", 10_000);
  await arrive("elsewhere", "import", 90_000);
  expect(await findingsOf(fresh, "foreign backlogs")).toEqual([]);

  await arrive("mail", "import", 20_000);
  await arrive("tenant-7", "scan", 50_000);
  expect((await findingsOf(fresh, "foreign backlogs")).map(({ level, what }) => `${level}: ${what}`)).toEqual(
    [
      "warning: queue tenant-7: 50,001 jobs of scan, passed over by 1 worker",
      "warning: queue mail: 30,002 jobs of import, passed over by 1 worker",
    ],
  );
});

test("advice about a lease is included", async () => {
  const fresh = await freshSchema();
  const kind = {
    kind: "ocr",
    leaseAdvice: "Give it a lease of 2 min: 1 % of its attempts last longer than 40 s.",
  } as KindView;

  expect(await findingsOf(fresh, "lease", { kinds: [kind] })).toMatchObject([
    { level: "warning", what: "kind ocr", fix: kind.leaseAdvice },
  ]);
});
