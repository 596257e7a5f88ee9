import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test } from "vitest";
import { defineJob, handle, typed } from "#stint/index.js";
import { query } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { startWorker } from "../support/watch.ts";
import { until } from "../support/until.ts";

const work = defineJob("work", { payload: typed<object>(), result: typed<string>() });

type Login = {
  parts: { host: string; port: number; user: string; database: string };
  /** From now on the server takes this password only. */
  change: (password: string) => Promise<void>;
};

/** A role of the test's own, which may do everything. */
async function login(fresh: Fresh): Promise<Login> {
  const { hostname, port, pathname } = new URL(fresh.url);
  const user = `role_${randomBytes(6).toString("hex")}`;
  await query(`create role "${user}" login superuser`);
  onTestFinished(async () => void (await query(`drop role if exists "${user}"`).catch(() => undefined)));
  return {
    parts: { host: hostname, port: Number(port), user, database: pathname.slice(1) },
    change: async (password) => void (await query(`alter role "${user}" password '${password}'`)),
  };
}

async function endLeaseConnection(worker: string): Promise<void> {
  const ended = await query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = $1",
    [`stint leases ${worker}`.slice(0, 63)],
  );
  expect(ended).toHaveLength(1);
}

async function leaseConnections(worker: string): Promise<number> {
  const rows = await query("select from pg_stat_activity where application_name = $1", [
    `stint leases ${worker}`.slice(0, 63),
  ]);
  return rows.length;
}

test("a worker reads its password at every connect, also on the lease thread", async () => {
  const fresh = await freshSchema();
  const { parts, change } = await login(fresh);
  await change("first");
  let password = "first";
  const stint = fresh.client({
    database: { ...parts, password: async () => await Promise.resolve(password) },
  });
  const [running, go] = [gate(), gate()];
  const { worker, all } = await startWorker(stint, {
    lease: "10s",
    handlers: [
      handle(work, async () => {
        running.open();
        await go.opened;
        return "done";
      }),
    ],
  });
  const job = await stint.enqueue(work, {});
  await running.opened;
  await change("second");
  password = "second";
  await endLeaseConnection(worker.id);
  await until(async () => (await leaseConnections(worker.id)) === 1, { message: "it has connected again" });
  go.open();
  expect(await stint.waitFor(job, { timeout: "60s" })).toBe("done");

  expect(all("leaseLost")).toEqual([]);
}, 90_000);

test("while the event loop is blocked the lease thread connects with the last password", async () => {
  const fresh = await freshSchema();
  const { parts, change } = await login(fresh);
  await change("only");
  const stint = fresh.client({ database: { ...parts, password: () => "only" } });
  const { worker, all } = await startWorker(stint, {
    lease: "4s",
    handlers: [
      handle(work, async () => {
        await endLeaseConnection(worker.id);
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 8_000);
        return "done";
      }),
    ],
  });
  const job = await stint.enqueue(work, {});
  expect(await stint.waitFor(job, { timeout: "60s" })).toBe("done");

  expect(all("leaseLost")).toEqual([]);
  expect(await stint.get(job.id)).toMatchObject({ attempts: 1, crashes: 0 });
}, 90_000);

test("worker() refuses a connection with a function other than the password", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client({
    database: { host: "127.0.0.1", ssl: { checkServerIdentity: () => undefined } },
  });
  expect(() => stint.worker({ pools: { default: 1 }, handlers: [handle(work, () => "done")] })).toThrow(
    "must not contain functions other than password",
  );
});
