/** The server on a real installation: responses match the database, and actions are done and audited. */
import { expect, test } from "vitest";
import type { JobDetail, JobPage, Operation } from "stint/inspect";
import { until } from "../../stint/test/support/until.ts";
import { request, open, post } from "./support/request.ts";
import { jobId } from "./support/fake.ts";
import { hostileText, everyState } from "./support/every-state.ts";
import { dieOf, installation, receipt } from "./support/installation.ts";

test("jobs are found by each filter, and paged without repeats or gaps", async () => {
  const { stint, ids } = await everyState();
  const dashboard = open({ role: "view" }, { stint });
  const found = async (query: string): Promise<string[]> => {
    const response = await request(dashboard, `/api/jobs?${query}`);
    expect(response.status).toBe(200);
    return (response.body as JobPage).jobs.map(({ id }) => id);
  };

  expect(await found("state=dead")).toEqual([ids.dead]);
  expect((await found("state=scheduled,running")).sort()).toEqual([ids.running, ids.scheduled].sort());
  expect(await found("kind=fail")).toEqual([ids.dead]);
  expect(await found("key=order:1")).toEqual([ids.succeeded]);
  expect((await found("tenant=acme")).sort()).toEqual([ids.succeeded, ids.dead].sort());
  expect(await found(`tag=${encodeURIComponent(hostileText)}`)).toEqual([ids.succeeded]);
  expect(await found("error=was refused")).toEqual([ids.dead]);
  expect(await found("queue=nothing")).toEqual([]);
  expect(await found(`since=${new Date(Date.now() + 60_000).toISOString()}`)).toEqual([]);

  const seen: string[] = [];
  let next: string | null = "";
  while (next !== null) {
    const response = await request(dashboard, `/api/jobs?limit=2&after=${encodeURIComponent(next)}`);
    const page = response.body as JobPage;
    seen.push(...page.jobs.map(({ id }) => id));
    next = page.next;
  }
  expect(seen.toSorted()).toEqual(Object.values(ids).sort());
  expect((await request(dashboard, "/api/jobs/count")).body).toEqual({ count: 5, capped: false });
});

test("a job with hostile text is data, redacted, and has no payload without rights", async () => {
  const { stint, ids } = await everyState();
  const redact = ["payload.card.number"];
  const admin = open({ role: "admin" }, { stint, redact });
  const viewer = open({ role: "view" }, { stint, redact });

  const dead = await request(admin, `/api/jobs/${ids.dead}`);
  expect(dead.headers.get("content-type")).toBe("application/json; charset=utf-8");
  expect(dead.text).not.toContain("4111111111111111");
  const { job, why } = dead.body as JobDetail;
  expect(job.payload).toEqual({ card: { number: "[redacted]" } });
  expect(job.log[0]?.error?.message).toBe(`${hostileText} card [redacted] was refused`);
  expect(job.log[0]?.error?.causes).toEqual([{ class: "Error", message: "declined" }]);
  expect(why.summary).not.toBe("");

  const succeeded = (await request(admin, `/api/jobs/${ids.succeeded}`)).body as JobDetail;
  expect(succeeded.job).toMatchObject({ result: { said: hostileText }, tags: [hostileText, "b"] });
  const hidden = (await request(viewer, `/api/jobs/${ids.succeeded}`)).body as JobDetail;
  expect(hidden).toMatchObject({
    hidden: true,
    job: { payload: null, result: null, meta: { source: "test" } },
  });
});

test("cancel, run-now and replay happen once with their actor; a repeat is refused", async () => {
  const { stint, ids } = await everyState();
  const dashboard = open({ role: "operate", user: "ada@example.com" }, { stint });
  const act = async (id: string, action: string, body: object): Promise<[number, unknown]> => {
    const response = await post(dashboard, `/api/jobs/${id}/${action}`, body);
    return [response.status, response.body];
  };

  expect(await act(ids.scheduled, "cancel", { reason: "a test" })).toEqual([200, { was: "cancelled" }]);
  expect(await act(ids.running, "cancel", {})).toEqual([200, { was: "asked" }]);
  expect(await act(ids.scheduled, "cancel", {})).toMatchObject([409, { error: { code: "WRONG_STATE" } }]);
  expect(await act(ids.retrying, "run-now", {})).toEqual([200, {}]);
  expect(await act(ids.dead, "replay", { reason: "fixed" })).toEqual([200, {}]);
  expect(await act(ids.succeeded, "replay", { reason: "again" })).toMatchObject([
    409,
    { error: { code: "WRONG_STATE" } },
  ]);
  expect(await act(jobId, "cancel", {})).toMatchObject([404, { error: { code: "JOB_NOT_FOUND" } }]);

  expect(await stint.audit(ids.scheduled)).toMatchObject([{ actor: "ada@example.com", reason: "a test" }]);
  expect(await stint.audit(ids.dead)).toMatchObject([{ actor: "ada@example.com", reason: "fixed" }]);
  const { audit } = (await request(dashboard, `/api/jobs/${ids.dead}`)).body as JobDetail;
  expect(audit).toMatchObject([{ actor: "ada@example.com" }]);
});

test("a bulk operation is previewed, begun, followed to its end, and audited per job", async () => {
  const { stint, ids } = await everyState();
  const environment = { name: "live", production: true };
  const dashboard = open({ role: "operate", user: "ada" }, { stint, environment });
  const wanted = { action: "replay", filter: { state: ["dead"], tenant: "acme" } };

  const preview = await post(dashboard, "/api/operations/preview", wanted);
  expect(preview.body).toMatchObject({ matched: { count: 1, capped: false }, sample: [{ id: ids.dead }] });
  const refused = await post(dashboard, "/api/operations", { ...wanted, reason: "fixed" });
  expect(refused.status).toBe(400);

  const begun = await post(dashboard, "/api/operations", { ...wanted, reason: "fixed", confirm: "live" });
  expect([begun.status, begun.body]).toMatchObject([
    201,
    { action: "replay", actor: "ada", reason: "fixed" },
  ]);
  const { id } = begun.body as Operation;
  const ended = await until(async () => {
    const operation = (await request(dashboard, `/api/operations/${id}`)).body as Operation;
    return operation.state === "running" ? undefined : operation;
  });
  expect(ended).toMatchObject({ state: "finished", done: 1, skipped: 0 });
  expect((await request(dashboard, "/api/operations")).body).toMatchObject([{ id }]);
  expect(await stint.audit(ids.dead)).toMatchObject([{ actor: "ada", reason: "fixed" }]);
  expect((await post(dashboard, `/api/operations/${jobId}/abort`, {})).status).toBe(404);
});

test("health, live updates and metrics report the real state", async () => {
  const { stint } = await everyState();
  const dashboard = open({ role: "view" }, { stint });

  await until(
    async () => {
      const health = (await request(dashboard, "/api/health")).body as {
        total: { dead: number; scheduled: number };
      };
      return health.total.dead === 1 && health.total.scheduled === 1;
    },
    { message: "the health shows one dead and one scheduled job" },
  );
  const response = await dashboard.fetch(new Request("https://jobs.example.com/api/events"));
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!/event: health\ndata: .*\n\n/.test(text)) text += (await reader.read()).value ?? "";
  await reader.cancel();
  expect(JSON.parse(/data: (.*)/.exec(text)![1]!)).toMatchObject({ queues: [{ queue: "default" }] });

  const metrics = await request(dashboard, "/metrics", { headers: {} });
  expect(metrics.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(metrics.text).toMatch(/^stint_jobs\{[^}]*state="dead"[^}]*\} 1$/m);
});

test("an unreachable database is 503 on every route, without its address", async () => {
  const { fresh } = await everyState();
  const stint = fresh.client({ database: "postgres://boss:hunter2@127.0.0.1:1/app" });
  const dashboard = open({ role: "admin" }, { stint });
  for (const path of ["/api/health", "/api/jobs", `/api/jobs/${jobId}`, "/api/operations", "/metrics"]) {
    const response = await request(dashboard, path);
    expect([path, response.status, response.body]).toMatchObject([
      path,
      503,
      { error: { code: "DATABASE_UNAVAILABLE" } },
    ]);
    expect(response.text).not.toMatch(/hunter2|boss|127\.0\.0\.1/);
  }
  expect((await post(dashboard, `/api/jobs/${jobId}/cancel`, {})).status).toBe(503);
});

test("a replay into a full queue is refused with the reason", async () => {
  const { stint } = await installation();
  const [dead = ""] = await dieOf(stint, () => new Error("boom"), 1);
  await stint.queueSettings.set("mail", { admission: { maxDepth: 1, strict: true } }, { reason: "test" });
  await stint.enqueue(receipt, { n: 1 });

  const response = await post(open({ role: "operate" }, { stint }), `/api/jobs/${dead}/replay`, {
    reason: "test",
  });
  expect([response.status, response.body]).toMatchObject([409, { error: { code: "QUEUE_FULL" } }]);
  expect((await stint.get(dead))?.state).toBe("dead");
});
