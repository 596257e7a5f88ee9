/** Admission by the delay of a dependency: how far its bucket is behind. */
import { expect, test } from "vitest";
import {
  defineDependency,
  defineJob,
  entry,
  handle,
  InvalidOptionError,
  QueueFullError,
  typed,
} from "#stint/index.js";
import type { AdmissionSettings, DependencyOptions, Stint } from "#stint/index.js";
import { freshSchema, type Fresh } from "../support/fresh.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";

/** A queue whose kind sends mails, and a worker that has declared them and stopped. */
async function mailing(
  admission: AdmissionSettings,
  mail: DependencyOptions,
): Promise<{ fresh: Fresh; stint: Stint; send: (count: number) => Promise<unknown> }> {
  const fresh = await freshSchema();
  const api = defineDependency("mail", mail);
  const job = defineJob("send", { queue: "mails", payload: typed<null>(), uses: [api] });
  const stint = fresh.client({ jobs: [job] });
  const { worker } = await startWorker(stint, {
    pools: { mails: 1 },
    handlers: [handle(job, () => undefined)],
  });
  await worker.stop();
  await stint.queueSettings.set("mails", { admission }, { reason: "test" });
  const send = async (count: number): Promise<unknown> =>
    await stint.enqueueMany(Array.from({ length: count }, () => entry(job, null)));
  return { fresh, stint, send };
}

test("a queue rejects while the bucket of its dependency is too far behind", async () => {
  const { fresh, stint, send } = await mailing(
    { maxDelay: { mail: "1m" } },
    { rate: { limit: 1, per: "1s", burst: 1 } },
  );
  await send(100);
  await until(async () => !(await stint.admission("mails")).admits, { message: "the sample shows it" });
  const { behind, retryAfterMs } = await stint.admission("mails");
  expect(behind).toMatchObject({ dependency: "mail", maxDelayMs: 60_000 });
  // 100 tokens, of which one is there.
  expect(Math.abs(behind!.delayMs - 99_000)).toBeLessThan(1_500);
  expect(retryAfterMs).toBeGreaterThan(30_000);

  const refused = send(1);
  await expect(refused).rejects.toThrow(QueueFullError);
  await expect(refused).rejects.toMatchObject({
    queue: "mails",
    dependency: "mail",
    delayMs: expect.any(Number) as number,
  });
  await expect(fresh.sql(`select stint.enqueue('send', 'null', '{"queue": "mails"}')`)).rejects.toMatchObject(
    { code: "ST006" },
  );

  await fresh.sql("delete from stint.job");
  await fresh.sql(
    "insert into stint.tally_delta (queue, kind, priority, live) values ('mails', 'send', 0, -100)",
  );
  await until(async () => (await stint.admission("mails")).admits, { message: "it admits again" });
  await send(1);
});

test("a slow-down and a used quota count as delay, and other policies apply", async () => {
  const { fresh, stint, send } = await mailing(
    { maxDelay: { mail: "1m" }, policy: "defer", deferBy: "2h" },
    { quota: { limit: 10, per: "month" } },
  );
  const delay = async (): Promise<number> =>
    (await fresh.sql<{ ms: number }>("select stint.dependency_delay('mail') as ms"))[0]!.ms;
  expect(await delay()).toBe(0);
  await fresh.sql("update stint.dependency set slow_until = clock_timestamp() + interval '5 minutes'");
  expect(Math.round((await delay()) / 60_000)).toBe(5);
  await fresh.sql("update stint.dependency set slow_until = null");
  await send(35);
  // The rest of this month, and two whole ones: at least 28 days each.
  expect(await delay()).toBeGreaterThan(2 * 28 * 86_400_000);
  await until(async () => (await stint.admission("mails")).isFull, { message: "the sample shows it" });
  await send(1);
  const [row] = await fresh.sql("select count(*)::integer as later from stint.job where state = 'scheduled'");
  expect(row).toEqual({ later: 1 });
});

test("a dependency that was deleted delays nothing", async () => {
  const { fresh, stint, send } = await mailing(
    { maxDelay: { mail: "1ms" } },
    { rate: { limit: 1, per: "1s", burst: 1 } },
  );
  await fresh.sql("delete from stint.dependency");
  await send(50);
  expect(await stint.admission("mails")).toMatchObject({ admits: true, behind: { delayMs: 0 } });
});

test("maxDelay of a dependency that is not declared is refused", async () => {
  const { fresh, stint } = await mailing({ maxDepth: 1 }, { rate: { limit: 1, per: "1s" } });
  const admission = { maxDelay: { mali: "1h" as const } };
  const refused = stint.queueSettings.set("mails", { admission }, { reason: "test" });
  await expect(refused).rejects.toThrow(InvalidOptionError);
  await expect(refused).rejects.toThrow('names "mali", which is not declared; did you mean "mail"?');
  const sql = `select stint.set_queue('mails', '{"admission": {"maxDelay": {"mali": "1h"}}}', 'test')`;
  await expect(fresh.sql(sql)).rejects.toMatchObject({
    code: "22023",
    hint: expect.stringContaining("Dependencies are: mail.") as string,
  });
  expect((await stint.queueSettings.list())[0]?.admission).toEqual({ maxDepth: 1, policy: "reject" });

  const declaring = fresh.client({ queues: { mails: { admission } } });
  const job = defineJob("other", { payload: typed<null>() });
  const worker = declaring.worker({ pools: { default: 1 }, handlers: [handle(job, () => undefined)] });
  await expect(worker.start()).rejects.toThrow('did you mean "mail"?');
});

test("controls show a queue as full whose dependency is too far behind", async () => {
  const { stint, send } = await mailing(
    { maxDelay: { mail: "1m" } },
    { rate: { limit: 1, per: "1s", burst: 1 } },
  );
  const inspector = stint.inspector();
  const [empty] = (await inspector.controls()).admission;
  expect(empty).toMatchObject({ full: false, behind: { dependency: "mail", maxDelayMs: 60_000 } });
  await send(100);
  const [full] = (await inspector.controls()).admission;
  expect(full).toMatchObject({ full: true, behind: { dependency: "mail" } });
  expect(full!.behind!.delayMs).toBeGreaterThan(90_000);
});
