/** openapi.json matches the routes: the same paths, rights and parameters, and the shape of real responses. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { routes } from "#dashboard/routes/index.js";
import type { Route } from "#dashboard/route.js";
import { request, open, post, type TestResponse } from "./support/request.ts";
import { bodyOf, pathOf } from "./support/calls.ts";
import { fakeStint, jobId } from "./support/fake.ts";
import { everyState } from "./support/every-state.ts";
import { misfits, type Schema } from "./support/schema.ts";

type Parameter = { name: string; in: "query" | "path" };
type ResponseSchema = { content?: Record<string, { schema: Schema }>; $ref?: string };
type Operation = {
  "x-stint-right": string;
  parameters?: Parameter[];
  requestBody?: { content: { "application/json": { schema: Schema } } };
  responses: Record<string, ResponseSchema>;
};
type Document = { info: { version: string }; paths: Record<string, Record<string, Operation>> };

const text = readFileSync(new URL("../openapi.json", import.meta.url), "utf8");
const document = JSON.parse(text) as Document;

const key = (route: Route): string => `${route.method} /${route.path.replaceAll(/:(\w+)/g, "{$1}")}`;
const operations = new Map<string, Operation>(
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(
      ([method, operation]) => [`${method.toUpperCase()} ${path}`, operation] as const,
    ),
  ),
);
const named = routes.map((route) => ({ name: key(route), route, operation: operations.get(key(route)) }));

function find(ref: string): Schema {
  let found: unknown = document;
  for (const part of ref.replace(/^#\//, "").split("/"))
    found = (found as Record<string, unknown> | undefined)?.[part];
  if (found === undefined) throw new Error(`${ref} leads nowhere`);
  return found as Schema;
}

function schemaOf(operation: Operation | undefined, status: number): Schema {
  const given = operation?.responses[String(status)];
  const response = given?.$ref === undefined ? given : (find(given.$ref) as ResponseSchema);
  const schema = Object.values(response?.content ?? {})[0]?.schema;
  if (schema === undefined) throw new Error(`The document has no response for ${status}`);
  return schema;
}

test("the document and the route table have the same paths", () => {
  expect([...operations.keys()].sort()).toEqual(named.map(({ name }) => name).sort());
});

test("its version is the package's, and every reference resolves", () => {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  expect(document.info.version).toBe(manifest.version);
  const refs = [...text.matchAll(/"\$ref": "([^"]+)"/g)].map((match) => match[1]!);
  expect(refs.length).toBeGreaterThan(50);
  for (const ref of refs) expect(find(ref)).toBeDefined();
});

describe.each(named)("$name", ({ route, operation }) => {
  test("access, parameters, body and status", () => {
    const parameters = operation?.parameters ?? [];
    const of = (place: string): string[] =>
      parameters.filter((parameter) => parameter.in === place).map(({ name }) => name);
    const body = operation?.requestBody?.content["application/json"].schema["properties"];

    expect(operation?.["x-stint-right"]).toBe(route.right);
    expect(of("query").sort()).toEqual([...(route.query ?? [])].sort());
    expect(of("path")).toEqual([...route.path.matchAll(/:(\w+)/g)].map((match) => match[1]));
    expect(body === undefined ? undefined : Object.keys(body as object).sort()).toEqual(
      route.method === "POST" ? [...(route.body ?? [])].sort() : undefined,
    );
    expect(Object.keys(operation?.responses ?? {}).filter((status) => status < "300")).toEqual([
      String(route.status ?? 200),
    ]);
  });

  test("the body that tests send is valid, and so is every refusal", async () => {
    const schema = operation?.requestBody?.content["application/json"].schema;
    expect(schema === undefined ? [] : misfits(schema, bodyOf(route), find)).toEqual([]);
    const away = Object.assign(new Error("away"), { code: "ECONNREFUSED" });
    const names = [
      "health",
      "stats",
      "capacity",
      "series",
      "kinds",
      "jobs",
      "count",
      "deadGroups",
      "waitingTenants",
      "job",
      "workers",
      "stops",
      "slow",
      "preview",
      "begin",
    ];
    const more = ["operations", "operation", "abort", "cancel", "runNow", "replay", "change", "limitKeys"];
    const changes = ["create", "pause", "resume", "run", "remove"].map((change) => `${change}Schedule`);
    const schedules = [
      "schedules",
      "scheduleCounts",
      "schedule",
      "scheduleSlots",
      "nextSlots",
      "flows",
      "flow",
      "cancelFlow",
      "controls",
      "pause",
      "resume",
      "setLimit",
      "passOrder",
      "setDependency",
      "setQueue",
      ...changes,
    ];
    const failing = fakeStint(
      Object.fromEntries([...names, ...more, ...schedules].map((name) => [name, away])),
    );
    const query = `${pathOf(route)}${pathOf(route).includes("?") ? "&" : "?"}nope=1`;
    const asked = [
      await send(open(null), route, pathOf(route)),
      await send(open(), route, query),
      ...(["me", "events"].includes(route.path)
        ? []
        : [await send(open({ role: "admin" }, { stint: failing }), route, pathOf(route))]),
    ];
    expect(asked.map(({ status }) => status)).toEqual([401, 400, 503].slice(0, asked.length));
    for (const { status, body } of asked)
      expect(misfits(schemaOf(operation, status), body, find)).toEqual([]);
  });
});

async function send(dashboard: ReturnType<typeof open>, route: Route, path: string): Promise<TestResponse> {
  return route.method === "POST"
    ? await post(dashboard, path, bodyOf(route))
    : await request(dashboard, path);
}

test("every response of a real installation matches the document", async () => {
  const { stint, ids } = await everyState();
  const dashboard = open({ role: "admin", user: "ada" }, { stint });
  const begun = (
    await post(dashboard, "/api/operations", {
      action: "run-now",
      filter: { state: "retrying" },
      reason: "test",
    })
  ).body;
  const operationId = (begun as { id: string }).id;
  await stint.schedules.set("nightly", { cron: "30 2 * * *", job: "work", payload: {}, jitter: "1m" });
  await stint.schedules.runNow("nightly");
  const waiting = await stint.enqueue("work", {}, { delay: "1h" });
  const flow = await stint.enqueue("work", {}, { after: [waiting] });
  // In the order of the table: actions on a job come after reads of it.
  const wanted: Record<string, string[]> = {
    "GET /jobs": ["/api/jobs", "/api/jobs?limit=2", "/api/jobs?state=dead,running&tenant=acme"],
    "GET /series": ["/api/series", "/api/series?queue=default&range=24h", "/api/series?kind=work&range=30d"],
    "GET /jobs/{id}": [...Object.values(ids), flow.id].map((id) => `/api/jobs/${id}`),
    "POST /jobs/{id}/cancel": [`/api/jobs/${ids.scheduled}/cancel`, `/api/jobs/${ids.running}/cancel`],
    "POST /jobs/{id}/run-now": [`/api/jobs/${ids.retrying}/run-now`],
    "POST /jobs/{id}/change": [`/api/jobs/${waiting.id}/change`],
    "POST /jobs/{id}/replay": [`/api/jobs/${ids.dead}/replay`],
    "GET /flows/{id}": [`/api/flows/${flow.id}`],
    "POST /flows/{id}/cancel": [`/api/flows/${flow.id}/cancel`],
    "GET /operations/{id}": [`/api/operations/${operationId}`],
    "POST /operations/{id}/abort": [`/api/operations/${operationId}/abort`],
  };
  for (const { name, route, operation } of named) {
    if (route.path === "events") continue;
    for (const path of wanted[name] ?? [pathOf(route)]) {
      const response = await send(dashboard, route, path);
      // An attempt that ends at this moment may have changed the state a job was in.
      const allowed = name === "POST /jobs/{id}/run-now" ? [200, 409] : [route.status ?? 200];
      expect({ name, path, status: response.status, text: response.text }).toMatchObject({
        status: expect.toSatisfy((status: number) => allowed.includes(status)),
      });
      expect({ path, misfits: misfits(schemaOf(operation, response.status), response.body, find) }).toEqual({
        path,
        misfits: [],
      });
    }
  }
  const missing = await request(dashboard, `/api/jobs/${jobId}`);
  expect([
    missing.status,
    misfits(schemaOf(operations.get("GET /jobs/{id}"), 404), missing.body, find),
  ]).toEqual([404, []]);
});

test("the validator finds faults", () => {
  const schema = schemaOf(operations.get("GET /jobs/count"), 200);
  expect(misfits(schema, { count: 1, capped: false }, find)).toEqual([]);
  expect(misfits(schema, { count: 1.5, capped: false }, find)).not.toEqual([]);
  expect(misfits(schema, { count: 1 }, find)).not.toEqual([]);
  expect(misfits(schema, { count: 1, capped: false, more: 1 }, find)).not.toEqual([]);
  expect(misfits({ patternProperties: {} }, {}, find)).not.toEqual([]);
});
