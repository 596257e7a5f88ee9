import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import {
  defineJob,
  handle,
  silentLogger,
  steps,
  typed,
  type HandlerContext,
  type Job,
  type Logger,
  type Tx,
} from "#stint/index.js";
import { adminClient, query } from "../support/database.ts";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { sharedWorker, startWorker } from "../support/watch.ts";

const options = { payload: typed<object>(), backoff: steps("1h"), attempts: 1 };
const plain = defineJob("plain", options);
const atomic = defineJob("atomic", { ...options, atomic: true });

type Fault = (tx: Tx, fresh: Fresh) => Promise<unknown>;

/** End the backend of this transaction, and send it one more statement. */
const terminate: Fault = async (tx, fresh) => {
  const [own] = (await tx.query("select pg_backend_pid() as pid")).rows;
  await fresh.sql("select pg_terminate_backend($1, 10000)", [own?.["pid"]]);
  return await tx.query("select 1");
};

/** Wait until a time limit for a lock that another session has. */
const lockTimeout: Fault = async (tx, fresh) => {
  const holder = await adminClient(fresh.url);
  try {
    await holder.query(`begin; lock table "${fresh.schema}".note`);
    await tx.query("set local lock_timeout = '20ms'");
    return await tx.query(`insert into "${fresh.schema}".note values (1)`);
  } finally {
    await holder.end();
  }
};

const readOnly: Fault = async (tx, fresh) => {
  await tx.query("set local transaction_read_only = on");
  return await tx.query(`insert into "${fresh.schema}".note values (1)`);
};

type Met = (tx: Tx, fresh: Fresh, context: HandlerContext) => Promise<unknown>;

/** The fault in the first attempt of each job, by its number. */
const faults: Met[] = [];
const numbered = { ...options, payload: typed<{ n: number }>() };
const plainMeets = defineJob("plain-meets", numbered);
const atomicMeets = defineJob("atomic-meets", { ...numbered, atomic: true });
const shared = sharedWorker((fresh) => {
  const use = async (tx: Tx, context: HandlerContext<{ n: number }>): Promise<void> => {
    if (context.fence.epoch === 1) await faults[context.payload.n]!(tx, fresh, context);
    await tx.query(`insert into "${fresh.schema}".note values (1)`);
  };
  return {
    handlers: [
      handle(plainMeets, async (context) => await context.complete(async (tx) => await use(tx, context))),
      handle(atomicMeets, async (context) => await use(context.tx, context)),
    ],
  };
});
beforeAll(async () => {
  await shared().fresh.sql("create table stint.note (n integer check (n < 5))");
});

/** Run a job with this fault in its first attempt, as `complete` and as an atomic kind; returns both outcomes. */
async function meet(fault: Met): Promise<Job[]> {
  const { stint, seen } = shared();
  const payload = { n: faults.push(fault) - 1 };
  const jobs = [await stint.enqueue(plainMeets, payload), await stint.enqueue(atomicMeets, payload)];
  for (const { id } of jobs) {
    await seen("settled", (event) => event.id === id && ["succeeded", "dead"].includes(event.state));
  }
  return await Promise.all(jobs.map(async ({ id }) => (await stint.get(id))!));
}

const released = {
  state: "succeeded",
  attempts: 1,
  faults: 1,
  interruptions: 0,
  crashes: 0,
  log: [{ outcome: "released" }, { outcome: "succeeded" }],
};

describe("a database fault in a handler's transaction releases the job, unspent:", () => {
  test.each<[string, Fault]>([
    ["the backend was terminated", terminate],
    ["a lock timeout", lockTimeout],
    ["a primary that has become read-only", readOnly],
    [
      "a fault that the handler wraps",
      async (tx, fresh) =>
        await terminate(tx, fresh).catch((error: unknown) => {
          throw new Error("could not save", { cause: error });
        }),
    ],
    [
      "a fault that the handler hides behind another",
      async (tx, fresh) =>
        await terminate(tx, fresh).catch(() => {
          throw new TypeError("something else");
        }),
    ],
    [
      "a fault that the handler swallows",
      async (tx, fresh) => await terminate(tx, fresh).catch(() => undefined),
    ],
    [
      "a fault that it meets on the driver's own client",
      async (tx, fresh) => {
        const client = tx.client as Client;
        const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
        await fresh.sql("select pg_terminate_backend($1, 10000)", [rows[0]?.pid]);
        await client.query("select 1").catch(() => {
          throw new Error("hidden");
        });
      },
    ],
    [
      "a lock timeout behind a savepoint",
      async (tx, fresh) => {
        await tx.query("savepoint here");
        await lockTimeout(tx, fresh).catch(async (error: unknown) => {
          await tx.query("rollback to savepoint here");
          throw new Error("wrapped", { cause: error });
        });
      },
    ],
  ])("%s", async (_, fault) => {
    for (const job of await meet(fault)) expect(job).toMatchObject(released);
  });

  test("even when the handler catches the error of complete() and returns", async () => {
    const fresh = await freshSchema();
    const stint = fresh.client();
    let runs = 0;
    const { seen } = await startWorker(stint, {
      handlers: [
        handle(plain, async ({ complete }) => {
          runs += 1;
          await complete(async (tx) => await (runs === 1 ? terminate(tx, fresh) : undefined)).catch(
            () => undefined,
          );
        }),
      ],
    });
    const { id } = await stint.enqueue(plain, {});
    await seen("settled", ({ outcome }) => outcome === "succeeded");

    expect(runs).toBe(2);
    expect(await stint.get(id)).toMatchObject({ attempts: 1, faults: 1 });
  });
});

describe("an error that is no connection fault spends an attempt:", () => {
  test.each<[string, Fault]>([
    [
      "a violated constraint",
      async (tx, fresh) => await tx.query(`insert into "${fresh.schema}".note values (9)`),
    ],
    ["a syntax error", async (tx) => await tx.query("selct 1")],
    ["an error of its own", async () => await Promise.reject(new Error("own"))],
    [
      "a lock timeout it has recovered from, and then an error of its own",
      async (tx, fresh) => {
        await tx.query("savepoint here");
        await lockTimeout(tx, fresh).catch(() => undefined);
        await tx.query("rollback to savepoint here");
        throw new Error("own");
      },
    ],
    [
      "the end of a connection that it opened itself",
      async (_, fresh) => {
        const own = await adminClient(fresh.url);
        own.on("error", () => undefined);
        const { rows } = await own.query<{ pid: number }>("select pg_backend_pid() as pid");
        await fresh.sql("select pg_terminate_backend($1, 10000)", [rows[0]?.pid]);
        await own.query("select 1");
      },
    ],
  ])("%s", async (_, fault) => {
    for (const job of await meet(fault)) expect(job).toMatchObject({ state: "dead", attempts: 1, faults: 0 });
  });
});

test("after twenty faults the next one counts as a failure", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { id } = await stint.enqueue(plain, {});
  await fresh.sql("update stint.job set faults = 19");
  const { seen } = await startWorker(stint, {
    handlers: [
      handle(plain, async ({ complete }) => await complete(async (tx) => await terminate(tx, fresh))),
    ],
  });
  await seen("settled", ({ outcome }) => outcome === "released");
  await stint.runNow(id, { reason: "its backoff is up to a minute by now" });
  await seen("settled", ({ state }) => state === "dead");

  expect(await stint.get(id)).toMatchObject({
    attempts: 1,
    faults: 20,
    log: [{ outcome: "released" }, { outcome: "failed" }],
  });
});

test("without connections, kinds with transactions are not claimed, and none dies", async () => {
  const fresh = await freshSchema();
  const role = `stint_test_${randomBytes(6).toString("hex")}`;
  const most = 8;
  await query(
    `create role ${role} login password 'x' connection limit ${most} in role current_user`,
    [],
    fresh.url,
  );
  onTestFinished(async () => void (await query(`drop role ${role}`, [], fresh.url)));
  const url = new URL(fresh.url);
  url.username = role;
  url.password = "x";
  const lines: string[] = [];
  const logger: Logger = {
    ...silentLogger,
    child: () => logger,
    warn: (_, line) => void lines.push(line),
    info: (_, line) => void lines.push(line),
  };
  const stint = fresh.client({ database: url.href, logger, wake: "none" });
  const free = defineJob("free", options);
  const { seen, worker } = await startWorker(stint, {
    handlers: [handle(atomic, () => undefined), handle(free, () => undefined)],
  });
  onTestFinished(async () => void (await worker.stop({ drain: 0, abort: 0 })));
  const fillers = await fill(url.href);
  const client = fresh.client();
  const jobs = await Promise.all(Array.from({ length: 10 }, () => client.enqueue(atomic, {})));
  await until(() => lines.some((line) => line.startsWith("no connection for the transactions")), {
    message: "the worker stops claiming them",
  });
  const settled = `select sum(faults)::int as faults from stint.job where state <> 'running'`;
  await until(async () => (await fresh.sql("select from stint.job where state = 'running'")).length === 0);
  const [before] = await fresh.sql(settled);
  // Others are still claimed, over and over; these are not.
  for (let n = 0; n < 3; n++) await client.waitFor(await client.enqueue(free, {}), { timeout: "60s" });
  expect(await fresh.sql(settled)).toEqual([before]);

  await Promise.all(fillers.map(async (filler) => await filler.end()));
  for (const { id } of jobs)
    await seen("settled", (event) => event.id === id && event.outcome === "succeeded");
  for (const { id } of jobs) expect(await client.get(id)).toMatchObject({ state: "succeeded", attempts: 1 });
  expect(lines).toContain("connections for the transactions of handlers are back");
});

/** Take every connection the role may still have. */
async function fill(url: string): Promise<Client[]> {
  const fillers: Client[] = [];
  for (;;) {
    const filler = new Client({ connectionString: url });
    filler.on("error", () => undefined);
    try {
      await filler.connect();
    } catch {
      return fillers;
    }
    fillers.push(filler);
  }
}
