import { expect, test } from "vitest";
import pino from "pino";
import {
  CrashedError,
  defineJob,
  handle,
  InvalidPayloadError,
  LeaseLostError,
  PermanentError,
  steps,
  TimedOutError,
  typed,
} from "#stint/index.js";
import { z } from "zod";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { steal } from "../support/steal.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

const work = defineJob("work", {
  payload: typed<object>(),
  backoff: steps("1h"),
  key: () => "order:1",
});

test("a handler that throws is reported with its own error, then as dead", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const thrown = [new RangeError("first"), new PermanentError("second")];
  const { seen, all } = await startWorker(stint, {
    backoff: steps(1),
    handlers: [
      handle(
        work,
        ({ attempt }) => {
          throw thrown[attempt - 1]!;
        },
        { backoff: steps(1) },
      ),
    ],
  });
  const { id } = await stint.enqueue(work, {}, { tenant: "acme", tags: ["a"] });

  const dead = await seen("dead");
  expect(dead.error).toBe(thrown[1]);
  expect(dead).toMatchObject({ outcome: "failed", reason: expect.stringContaining("second") as string });
  const job = { id, kind: "work", queue: "default", key: "order:1", tenant: "acme", tags: ["a"] };
  expect(all("failed")).toEqual([
    {
      error: thrown[0],
      job: { ...job, attempt: 1 },
      outcome: "failed",
      state: "retrying",
      ms: expect.any(Number) as number,
    },
    {
      error: thrown[1],
      job: { ...job, attempt: 2 },
      outcome: "failed",
      state: "dead",
      ms: expect.any(Number) as number,
    },
  ]);
  expect(all("dead")).toHaveLength(1);
});

test.each([
  ["a string", () => "just text", "just text"],
  ["undefined", () => undefined, ""],
  ["an object", () => ({ code: 7 }), ""],
  ["a revoked proxy", () => revoked(), ""],
])("a handler that throws %s is reported with an error that describes it", async (_, thrown, message) => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { seen } = await startWorker(stint, {
    attempts: 1,
    handlers: [
      handle(work, () => {
        throw thrown();
      }),
    ],
  });
  await stint.enqueue(work, {});

  const { error } = await seen("dead");
  expect(error).toBeInstanceOf(Error);
  expect(error.message).toContain(message);
  expect(error.stack).not.toContain("failures");
});

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

test("a timeout is reported as TimedOutError", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { seen } = await startWorker(stint, {
    timeout: 50,
    handlers: [
      handle(work, async ({ signal }) => {
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("other"))));
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {});

  const failed = await seen("failed");
  expect(failed.error).toBeInstanceOf(TimedOutError);
  expect(failed).toMatchObject({ outcome: "timed-out", state: "retrying", job: { id } });
});

test("a payload that fails its schema is reported as InvalidPayloadError", async () => {
  const fresh = await freshSchema();
  const strict = defineJob("strict", { payload: z.object({ n: z.number() }) });
  const { seen } = await startWorker(fresh.client(), { handlers: [handle(strict, () => undefined)] });
  await fresh.sql(`select stint.enqueue('strict', '{"n": "no number"}')`);

  const { error, job } = await seen("failed");
  expect(error).toBeInstanceOf(InvalidPayloadError);
  expect(job).toMatchObject({ kind: "strict", attempt: 1 });
});

test("an attempt whose lease was lost is reported as LeaseLostError", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const [running, goOn] = [gate(), gate()];
  const cause = new Error("after the theft");
  const { seen } = await startWorker(stint, {
    pools: { default: 1 },
    rescueEvery: "1h",
    handlers: [
      handle(work, async () => {
        running.open();
        await goOn.opened;
        throw cause;
      }),
    ],
  });
  const { id } = await stint.enqueue(work, {});
  await running.opened;
  await steal(fresh, id);
  goOn.open();

  const failed = await seen("failed", ({ outcome }) => outcome === "lease-lost");
  expect(failed.error).toBeInstanceOf(LeaseLostError);
  expect(failed).toMatchObject({ state: null, job: { id } });
});

test("the worker that rescues a job reports its crash, and its death by crashes", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const [once, last] = [await crashed(fresh, 3), await crashed(fresh, 1)];
  const { seen } = await startWorker(stint, { handlers: [handle(work, () => undefined)] });

  const failed = await seen("failed", ({ job }) => job.id === once);
  expect(failed.error).toBeInstanceOf(CrashedError);
  expect(failed).toMatchObject({
    outcome: "crashed",
    state: "ready",
    ms: null,
    job: { attempt: 1, key: "order:1" },
  });
  expect(failed.error).toMatchObject({ worker: "killed", crashes: 1 });
  const dead = await seen("dead");
  expect(dead.error).toBeInstanceOf(CrashedError);
  expect(dead).toMatchObject({ outcome: "crashed", job: { id: last, kind: "work" } });
});

/** A job whose worker was killed while it ran it. Its lease ends in a second: a living worker looks only for leases that ran out since it last looked. */
async function crashed(fresh: Fresh, maxCrashes: number): Promise<string> {
  const { id } = await fresh.client().enqueue(work, {}, { maxCrashes });
  await fresh.sql(
    `update stint.job
     set state = 'running', worker = 'killed', attempts = 1, epoch = 1, lease_id = gen_random_uuid(),
       lease_until = clock_timestamp() + interval '1 second', claimed_at = now() - interval '2 minutes'
     where id = $1`,
    [id],
  );
  return id;
}

test("a listener that throws or rejects changes nothing", async () => {
  const fresh = await freshSchema();
  const lines: string[] = [];
  const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const stint = fresh.client({ logger });
  const { worker, seen } = await startWorker(stint, {
    handlers: [
      handle(work, () => {
        throw new PermanentError("no");
      }),
    ],
  });
  worker.on("failed", () => {
    throw new Error("the listener threw");
  });
  worker.on("dead", async () => await Promise.reject(new Error("the listener rejected")));
  const { id } = await stint.enqueue(work, {});

  await seen("dead");
  await until(() => lines.some((line) => line.includes("the listener rejected")));
  expect(lines.some((line) => line.includes("the listener threw"))).toBe(true);
  expect(await stint.get(id)).toMatchObject({ state: "dead", attempts: 1 });
});

test("pino shows the stack of a failure and of a death", async () => {
  const fresh = await freshSchema();
  const lines: string[] = [];
  const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const stint = fresh.client({ logger });
  function chargeCard(): never {
    throw new TypeError("card refused");
  }
  const { seen } = await startWorker(stint, {
    backoff: steps(1),
    attempts: 2,
    handlers: [handle(work, chargeCard, { backoff: steps(1) })],
  });
  const { id } = await stint.enqueue(work, {});
  await seen("dead");

  const entries = lines.map(
    (line) => JSON.parse(line) as { level: number; job?: string; err?: { type: string; stack: string } },
  );
  const about = entries.filter((entry) => entry.job === id && entry.err !== undefined);
  expect(about.map(({ level, err }) => [level, err!.type])).toEqual([
    [40, "TypeError"],
    [50, "TypeError"],
  ]);
  for (const { err } of about) expect(err!.stack).toContain("chargeCard");
});

test("with logAttempts the start and the end of each attempt are logged at info", async () => {
  const fresh = await freshSchema();
  const lines: string[] = [];
  const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  const stint = fresh.client({ logger });
  const quiet = await startWorker(stint, { handlers: [handle(work, () => undefined)] });
  const first = await stint.enqueue(work, {});
  await quiet.seen("settled");
  await quiet.worker.stop();
  const telling = await startWorker(stint, { logAttempts: true, handlers: [handle(work, () => undefined)] });
  const second = await stint.enqueue(work, {});
  await telling.seen("settled");

  const messagesOf = (id: string): string[] =>
    lines
      .map((line) => JSON.parse(line) as { job?: string; msg: string })
      .flatMap(({ job, msg }) => (job === id ? [msg] : []));
  expect(messagesOf(first.id)).toEqual([]);
  expect(messagesOf(second.id)).toEqual(["work begins", "work succeeded"]);
  expect(lines.some((line) => line.includes("attempts since the last totals: 1 succeeded"))).toBe(true);
});

test("two workers with the same name have different ids", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const options = { name: "mailer", handlers: [handle(work, () => undefined)] };
  const [first, second] = [await startWorker(stint, options), await startWorker(stint, options)];

  expect(first.worker.id).not.toBe(second.worker.id);
  const rows = await fresh.sql<{ id: string }>("select id from stint.worker order by id");
  expect(rows.map(({ id }) => id)).toEqual([first.worker.id, second.worker.id].sort());
  for (const { id } of rows) expect(id).toMatch(/^mailer-/);
});
