import type { JobChange } from "stint";
import { jobFilterKeys } from "stint/inspect";
import type { Visitor } from "../access.ts";
import { respond } from "../respond.ts";
import { noStore } from "../headers.ts";
import { requireSearchable } from "../filters.ts";
import { afterOf, dateOf, filterOf, idOf, limitOf, reasonOf, textOf } from "../input.ts";
import { badRequest, Problem } from "../problem.ts";
import { route, type Input } from "../route.ts";
import { presentData, presentDetail, presentPage, type DataName } from "../present.ts";

/** Values that are too large for the screen. */
const downloads = ["payload", "result"] as const satisfies readonly DataName[];

function downloadOf(query: URLSearchParams): DataName | undefined {
  const wanted = query.get("download");
  const found = downloads.find((name) => name === wanted);
  if (wanted !== null && found === undefined)
    throw badRequest(`download must be one of ${downloads.join(", ")}.`);
  return found;
}

/** When and how urgently a waiting job runs. The library checks the values. Payloads are not changed here: a redacted one would be written back. */
function changeOf({ delay, runAt, priority }: Input["body"]): JobChange {
  const change: object = {
    ...(delay === undefined ? {} : { delay: textOf(delay, "delay", 32) }),
    ...(runAt === undefined ? {} : { runAt: dateOf(runAt, "runAt") }),
    ...(priority === undefined ? {} : { priority }),
  };
  return change;
}

function requirePayloads({ can }: Visitor): void {
  if (can.payloads) return;
  throw new Problem(403, "NOT_ALLOWED", "Your role may not see payloads.", {
    hint: "Ask for the right to see payloads.",
  });
}

export const jobRoutes = [
  route({
    method: "GET",
    path: "jobs",
    right: "view",
    query: [...jobFilterKeys, "after", "limit"],
    parse: ({ query }) => ({
      ...filterOf(query),
      limit: limitOf(query, { fallback: 50, max: 200 }),
      ...afterOf(query),
    }),
    run: async (tools, filter, visitor) => {
      requireSearchable(filter, visitor, tools.redactor);
      const page = await tools.inspector().jobs(filter);
      return await presentPage(page, tools.redactor, async (id) => await tools.client.get(id));
    },
  }),
  route({
    method: "GET",
    path: "jobs/count",
    right: "view",
    query: [...jobFilterKeys, "after"],
    parse: ({ query }) => ({ ...filterOf(query), ...afterOf(query) }),
    run: async (tools, filter, visitor) => {
      requireSearchable(filter, visitor, tools.redactor);
      return await tools.inspector().count(filter);
    },
  }),
  route({
    method: "GET",
    path: "jobs/:id",
    right: "view",
    query: ["download"],
    parse: (input) => ({ id: idOf(input), download: downloadOf(input.query) }),
    run: async (tools, { id, download }, visitor) => {
      if (download !== undefined) requirePayloads(visitor);
      const detail = await tools.inspector().job(id);
      if (detail === undefined) {
        throw new Problem(404, "JOB_NOT_FOUND", `No job ${id} exists.`, {
          hint: "It was never committed, or it was pruned after its retention.",
        });
      }
      if (visitor.can.payloads) await tools.payloadAudit.record(visitor, { job: id, kind: detail.job.kind });
      if (download === undefined) return presentDetail(detail, visitor, tools.redactor);
      return respond(presentData(detail.job, download, tools.redactor), 200, {
        ...noStore,
        "content-type": "application/json; charset=utf-8",
        "content-disposition": `attachment; filename="${id}-${download}.json"`,
      });
    },
  }),
  route({
    method: "POST",
    path: "jobs/:id/cancel",
    right: "operate",
    body: ["reason"],
    parse: (input) => ({ id: idOf(input), reason: reasonOf(input.body, false) }),
    run: async ({ client }, { id, reason }, { actor }) => ({
      was: await client.cancel(id, { actor, ...(reason === undefined ? {} : { reason }) }),
    }),
  }),
  route({
    method: "POST",
    path: "jobs/:id/run-now",
    right: "operate",
    body: ["reason"],
    parse: (input) => ({ id: idOf(input), reason: reasonOf(input.body, false) }),
    run: async ({ client }, { id, reason }, { actor }) => {
      await client.runNow(id, { actor, ...(reason === undefined ? {} : { reason }) });
      return {};
    },
  }),
  route({
    method: "POST",
    path: "jobs/:id/replay",
    right: "operate",
    body: ["reason"],
    parse: (input) => ({ id: idOf(input), reason: reasonOf(input.body, true) ?? "" }),
    run: async ({ client }, { id, reason }, { actor }) => {
      await client.replay(id, { actor, reason });
      return {};
    },
  }),
  route({
    method: "POST",
    path: "jobs/:id/change",
    right: "operate",
    body: ["delay", "runAt", "priority", "reason"],
    parse: (input) => ({
      id: idOf(input),
      change: changeOf(input.body),
      reason: reasonOf(input.body, true) ?? "",
    }),
    run: async ({ client }, { id, change, reason }, { actor }) => {
      await client.change(id, change, { actor, reason });
      return {};
    },
  }),
];
