/** The routes of flows on a real installation: lists, graphs, cancelling, hostile input. */
import { defineJob, entry, handle, typed } from "stint";
import { expect, test } from "vitest";
import { startWorker } from "../../stint/test/support/watch.ts";
import { until } from "../../stint/test/support/until.ts";
import { request, open, post } from "./support/request.ts";
import { jobId } from "./support/fake.ts";
import { installation } from "./support/installation.ts";

const part = defineJob("part", { payload: typed<object>(), attempts: 1 });
const last = defineJob("last", { payload: typed<object>(), attempts: 1 });

type Listed = { flows: { id: string; name: string | null; state: string }[]; next: string | null };

test("flows are paged, searched by name, and found by any of their jobs", async () => {
  const { stint } = await installation({ jobs: [part, last] });
  for (const name of ["checkout", "import", "nightly/import"])
    await stint.flow(name, { a: entry(part, {}), b: entry(last, {}, { after: ["a"] }) });
  const dashboard = open({ role: "view" }, { stint });
  const names = async (query: string): Promise<(string | null)[]> =>
    ((await request(dashboard, `/api/flows?${query}`)).body as Listed).flows.map(({ name }) => name);

  expect(await names("")).toEqual(["nightly/import", "import", "checkout"]);
  expect(await names("search=IMPORT&live=true")).toEqual(["nightly/import", "import"]);
  const { next } = (await request(dashboard, "/api/flows?limit=1")).body as Listed;
  expect(await names(`limit=1&after=${next}`)).toEqual(["import"]);

  const { flows } = (await request(dashboard, "/api/flows?search=checkout")).body as Listed;
  const shown = await request(dashboard, `/api/flows/${flows[0]!.id}`);
  const { jobs } = shown.body as { jobs: { id: string; name: string; after: string[] }[] };
  const [a, b] = jobs;
  expect(shown.body).toMatchObject({ state: "running", parts: 2, blocked: 1 });
  expect(b).toMatchObject({ name: "b", after: [a!.id] });
  expect((await request(dashboard, `/api/flows/${b!.id}`)).body).toMatchObject({ id: flows[0]!.id });
  // The page of a job knows its place.
  expect((await request(dashboard, `/api/jobs/${b!.id}`)).body).toMatchObject({
    flow: { name: "checkout", before: [{ id: a!.id, kind: "part", name: "a", state: "ready" }], after: [] },
  });
  expect((await request(dashboard, `/api/jobs/${a!.id}`)).body).toMatchObject({
    flow: { before: [], after: [{ id: b!.id, kind: "last", name: "b", state: "parked" }] },
  });
});

test("a chain is a flow, and each of its jobs knows the one before and after it", async () => {
  const { stint } = await installation({ jobs: [part, last] });
  await startWorker(stint, {
    handlers: [
      handle(part, ({ continueWith }) => continueWith(last, {}) as never),
      handle(last, async () => {}),
    ],
  });
  const { id } = await stint.enqueue(part, {});
  await stint.waitFor(id);
  const dashboard = open({ role: "view" }, { stint });
  const first = (await request(dashboard, `/api/jobs/${id}`)).body as { flow: { after: { id: string }[] } };
  expect(first.flow).toMatchObject({ name: null, before: [], after: [{ kind: "last", state: "succeeded" }] });
  const second = await request(dashboard, `/api/jobs/${first.flow.after[0]!.id}`);
  expect(second.body).toMatchObject({ flow: { before: [{ id, kind: "part" }], after: [] } });
});

test("cancelling a flow needs a reason, and in production the name of the environment", async () => {
  const { stint } = await installation({ jobs: [part, last] });
  const flow = await stint.flow("checkout", { a: entry(part, {}), b: entry(last, {}, { after: ["a"] }) });
  const id = flow.id;
  const environment = { name: "live", production: true };
  const dashboard = open({ role: "operate", user: "ada" }, { stint, environment });
  const cancel = async (body: object, of = id) => await post(dashboard, `/api/flows/${of}/cancel`, body);
  expect((await cancel({ confirm: "live" })).status).toBe(400);
  expect(await cancel({ reason: "wrong order" })).toMatchObject({
    status: 400,
    body: { error: { code: "CONFIRMATION_NEEDED" } },
  });
  expect((await cancel({ reason: "x", confirm: "live" }, jobId)).status).toBe(404);
  expect((await stint.flows.get(id))?.live).toBe(2);
  expect((await cancel({ reason: "wrong order", confirm: "live" })).body).toEqual({ cancelled: 2 });
  await until(async () => (await stint.flows.get(id))?.live === 0, { message: "all parts have ended" });
});

test("bad input is refused, and reasons are hidden where values are redacted", async () => {
  const { stint } = await installation({ jobs: [part, last] });
  const dashboard = open({ role: "view" }, { stint });
  for (const query of [
    `search=${"x".repeat(200)}`,
    "search=%00",
    "live=maybe",
    "after=x",
    "limit=100000",
    "state=dead",
  ])
    expect([query, (await request(dashboard, `/api/flows?${query}`)).status]).toEqual([query, 400]);
  expect((await request(dashboard, "/api/flows/<b>")).status).toBe(400);
  expect((await request(dashboard, `/api/flows/${jobId}`)).status).toBe(404);

  await startWorker(stint, {
    handlers: [
      handle(part, () => {
        throw new Error("card 4111 refused");
      }),
    ],
  });
  const { id } = await stint.flow("checkout", { a: entry(part, {}), b: entry(last, {}, { after: ["a"] }) });
  await until(async () => (await stint.flows.get(id))?.state === "stuck", { message: "the flow is stuck" });
  const open1 = await request(dashboard, `/api/flows/${id}`);
  expect(open1.text).toContain("4111");
  const hidden = await request(
    open({ role: "admin" }, { stint, redact: ["payload.card"] }),
    `/api/flows/${id}`,
  );
  expect([hidden.status, hidden.text.includes("4111")]).toEqual([200, false]);
});
