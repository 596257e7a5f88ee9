import { expect, test } from "vitest";
import { defineJob, handle, PermanentError, typed } from "#stint/index.js";
import { newId } from "#stint/runtime/new-id.js";
import { freshSchema } from "../support/fresh.ts";
import { gate } from "../support/gate.ts";
import { until } from "../support/until.ts";
import { startWorker } from "../support/watch.ts";
import { expire } from "../sql/jobs.ts";
import { jobsOf } from "./inspectors.ts";

const mail = defineJob("mail", { payload: typed<{ does?: string }>(), attempts: 2 });
const other = defineJob("other", { payload: typed<object>() });

test("a missing job has no explanation; an invalid id is refused", async () => {
  const fresh = await freshSchema();
  const jobs = jobsOf(fresh);

  expect(await jobs.why(newId())).toBeUndefined();
  expect(await jobs.job(newId())).toBeUndefined();
  await expect(jobs.why("nonsense")).rejects.toThrow("must be the UUID of a job");
});

test("the cause follows no worker, one without the kind, a busy one, and a running one", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const jobs = jobsOf(fresh);
  const mayEnd = gate();
  const first = await stint.enqueue(mail, {});
  const second = await stint.enqueue(mail, {});

  expect(await jobs.why(first.id)).toMatchObject({
    findings: [{ blocks: true, text: "No worker serves queue default." }],
  });

  await startWorker(stint, { handlers: [handle(other, () => undefined)] });
  expect(await jobs.why(first.id)).toMatchObject({
    findings: [{ blocks: true, text: "1 worker serves queue default, but none has a handler for mail." }],
  });

  const { worker, seen } = await startWorker(stint, {
    pools: { default: 1 },
    handlers: [handle(mail, async () => await mayEnd.opened)],
  });
  await seen("claimed");
  expect(await jobs.why(first.id)).toMatchObject({
    summary: expect.stringMatching(/^Running on .* attempt 1\.$/) as string,
    findings: [{ blocks: false, text: expect.stringContaining("Its worker is alive") as string }],
  });
  expect(await jobs.why(second.id)).toMatchObject({
    findings: [{ blocks: true, text: "All 1 slots for queue default are busy." }],
  });

  mayEnd.open();
  await until(async () => (await stint.get(second.id))?.state === "succeeded");
  expect((await jobs.why(second.id))?.summary).toMatch(/^It succeeded .* at attempt 1\.$/);
  await worker.stop();
});

test("jobs of a higher priority come first, and are counted", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const low = await stint.enqueue(mail, {}, { priority: 5 });
  await stint.enqueue(mail, {}, { priority: 1 });
  await stint.enqueue(mail, {}, { priority: 9 });
  await fresh.sql(
    `insert into stint.worker (id, host, pid, version, pools, kinds) values ('w', 'h', 1, 'v', '{"default": 1}', '{mail}')`,
  );

  const why = await jobsOf(fresh).why(low.id);

  expect(why?.findings[0]).toMatchObject({
    blocks: true,
    text: expect.stringMatching(/^1 job is before it/) as string,
  });
});

test("an expired lease, a quarantine and a snooze are explained", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const jobs = jobsOf(fresh);
  const { id } = await stint.enqueue(mail, {});
  await fresh.sql(
    `update stint.job set state = 'running', lease_id = gen_random_uuid(), lease_until = now(), worker = 'gone', epoch = 1,
       attempts = 1, claimed_at = now() where id = $1`,
    [id],
  );
  await expire(fresh, id);
  expect((await jobs.why(id))?.findings[0]?.text).toMatch(/^Its lease ran out (59 min|1 h)/);

  await fresh.sql(
    `update stint.job set state = 'parked', park_reason = 'quarantine', crashes = 2, lease_id = null, lease_until = null where id = $1`,
    [id],
  );
  expect((await jobs.why(id))?.summary).toMatch(/^It is in quarantine: its worker died twice/);
});

test("a timeline has the whole life of a job: leases, errors, replays and the end", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const { id } = await stint.enqueue(mail, { does: "fail" }, { key: "order:1" });
  let isFixed = false;
  const { worker } = await startWorker(stint, {
    backoff: () => 0,
    handlers: [
      handle(mail, () => {
        if (!isFixed) throw new PermanentError("no such order");
      }),
    ],
  });
  await until(async () => (await stint.get(id))?.state === "dead");
  isFixed = true;
  await stint.replay(id, { reason: "it exists now", actor: "ann" });
  await until(async () => (await stint.get(id))?.state === "succeeded");

  const detail = await jobsOf(fresh, { mail: 40 }).job(id);

  expect(detail?.timeline.map(({ what, title, detail: more }) => [what, title, more])).toEqual([
    ["enqueued", "Enqueued to default", "key order:1"],
    ["claimed", `Claimed by ${worker.id}`, expect.stringMatching(/^lease [0-9a-f-]{36}$/)],
    ["attempt-ended", "Attempt failed", "PermanentError: no such order"],
    ["replayed", "Replayed by ann", "it exists now"],
    ["claimed", `Claimed by ${worker.id}`, expect.stringMatching(/^lease [0-9a-f-]{36}$/)],
    ["attempt-ended", "Attempt succeeded", null],
    ["ended", "Succeeded", null],
  ]);
  expect(detail).toMatchObject({
    leaseId: expect.any(String) as string,
    run: { p95: 40 },
    traceId: null,
    audit: [{ action: "replay", actor: "ann" }],
    why: { findings: [] },
  });
});

test("only a valid trace in the meta of a job is returned", async () => {
  const fresh = await freshSchema();
  const stint = fresh.client();
  const trace = "0af7651916cd43dd8448eb211c80319c";
  const good = await stint.enqueue(
    mail,
    {},
    {
      meta: { trace: { traceparent: `00-${trace}-b7ad6b7169203331-01` } },
    },
  );
  const bad = await stint.enqueue(mail, {}, { meta: { trace: { traceparent: "<script>" } } });

  expect((await jobsOf(fresh).job(good.id))?.traceId).toBe(trace);
  expect((await jobsOf(fresh).job(bad.id))?.traceId).toBeNull();
});
