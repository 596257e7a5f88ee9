import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { createStint, handle, LeasesUnavailableError, silentLogger } from "#stint/index.js";
import { startCutProxy } from "../support/cut-proxy.ts";
import { query } from "../support/database.ts";
import { untilRenewed } from "../support/database-time.ts";
import { testFolder } from "../support/folder.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until, untilSteady } from "../support/until.ts";
import {
  scripted,
  entered,
  spawnWorkerProcess,
  startWorkerProcess,
  type WorkerProcess,
} from "../support/worker-process.ts";

const faults = fileURLToPath(new URL("../fixtures/thread-faults.mjs", import.meta.url));

async function startFaulty(fresh: Fresh): Promise<{ worker: WorkerProcess; noThreads: string }> {
  const noThreads = join(await testFolder(), "no-threads");
  const worker = await startWorkerProcess(fresh, {
    execArgv: ["--import", faults],
    env: { STINT_TEST_NO_THREADS: noThreads },
  });
  return { worker, noThreads };
}

test("a worker that may not start its lease thread refuses to start, and leaves no row", async () => {
  const fresh = await freshSchema();
  const noThreads = join(await testFolder(), "no-threads");
  await writeFile(noThreads, "");
  const proxy = await startCutProxy(fresh.url);
  const registering = proxy.holdAt("register-worker");
  const worker = spawnWorkerProcess(
    { ...fresh, url: proxy.url },
    { execArgv: ["--import", faults], env: { STINT_TEST_NO_THREADS: noThreads } },
  );
  // The row arrives after the refusal.
  const held = await registering;
  await untilSteady(() => proxy.count(""), 500);
  await held.release();

  expect(await worker.ended).toEqual({ code: 1, signal: null });
  expect(worker.errors()).toContain("LEASES_UNAVAILABLE");
  expect(worker.errors()).toContain("no thread can be started");
  expect(await fresh.sql("select from stint.worker")).toEqual([]);
});

test("a worker whose lease thread cannot connect refuses to start, and can start later", async () => {
  const fresh = await freshSchema();
  const role = `stint_test_limited_${process.pid}`;
  await query(
    `create role ${role} login password 'x' connection limit 1 in role current_user`,
    [],
    fresh.url,
  );
  onTestFinished(async () => void (await query(`drop role ${role}`, [], fresh.url)));
  const url = new URL(fresh.url);
  url.username = role;
  url.password = "x";
  const stint = createStint({
    database: url.href,
    schema: fresh.schema,
    logger: silentLogger,
    wake: "none",
    // With two, the check below and the deletion of the row would compete for the role's only connection.
    connections: 1,
  });
  onTestFinished(async () => await stint.close());
  const worker = stint.worker({
    pools: { default: 1 },
    handlers: [handle(scripted, () => ({ pid: 0, epoch: 0 }))],
  });

  // The only connection the role may have stays in use.
  const asking = setInterval(() => void worker.check().catch(() => undefined), 500);
  onTestFinished(() => clearInterval(asking));
  const refused = await worker.start().catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(LeasesUnavailableError);
  expect(refused).toMatchObject({ detail: expect.stringContaining("too many connections") as string });
  expect(worker.state).toBe("new");
  expect(await fresh.sql("select from stint.worker")).toEqual([]);

  await query(`alter role ${role} connection limit 20`, [], fresh.url);
  await worker.start();
  expect(worker.state).toBe("running");
});

test("jobs survive the end of the lease thread: a new one renews their leases", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { worker } = await startFaulty(fresh);
  const { id } = await stint.enqueue(scripted, { do: "ignore" });
  await worker.reported("entered", id);
  worker.kill("SIGUSR2");
  await until(() => worker.errors().includes("the lease thread ended"));

  // The first may be the last of the old thread, which was under way when it ended.
  await untilRenewed(fresh, id, 2);
  worker.go(id);
  await worker.reported("settled", id);

  expect(entered(worker)).toEqual([`${id}/1`]);
  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0 });
});

test("a worker that cannot restart its lease thread claims nothing until it can", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { worker, noThreads } = await startFaulty(fresh);
  await writeFile(noThreads, "");
  worker.kill("SIGUSR2");
  await until(() => worker.errors().includes("could not start the lease thread"));

  const { id } = await stint.enqueue(scripted, { do: "succeed" });
  const tries = (): number => worker.errors().split("could not start the lease thread").length;
  const before = tries();
  await until(() => tries() > before + 2);
  expect(await stint.get(id)).toMatchObject({ state: "ready", attempts: 0 });
  expect(worker.errors()).toContain("no jobs are claimed until it runs again");

  await rm(noThreads);
  await worker.reported("settled", id);
  expect(await stint.get(id)).toMatchObject({ state: "succeeded", attempts: 1, crashes: 0 });
});
