/** Flows, chains and batches: lists, one as a graph, and cancelling one. */
import { requireConfirmation } from "../confirmation.ts";
import { afterOf, idOf, limitOf, oneOf, reasonOf, textOf } from "../input.ts";
import { presentFlow, presentFlows } from "../present-flows.ts";
import { Problem } from "../problem.ts";
import { route } from "../route.ts";

const notFound = (id: string): Problem =>
  new Problem(404, "FLOW_NOT_FOUND", `No flow ${id} exists, and no job ${id} is part of one.`, {
    hint: "It was never committed, or it was pruned with its jobs.",
  });

export const flowRoutes = [
  route({
    method: "GET",
    path: "flows",
    right: "view",
    query: ["search", "live", "after", "limit"],
    parse: ({ query }) => {
      const search = query.get("search") ?? "";
      const live = oneOf(query.get("live"), "live", ["true", "false"]);
      return {
        ...(search === "" ? {} : { search: textOf(search, "search", 128) }),
        ...(live === undefined ? {} : { live: live === "true" }),
        ...afterOf(query),
        limit: limitOf(query, { fallback: 50, max: 100 }),
      };
    },
    run: async (tools, filter) => presentFlows(await tools.inspector().flows(filter), tools.redactor),
  }),
  route({
    method: "GET",
    path: "flows/:id",
    right: "view",
    parse: idOf,
    run: async (tools, id) => {
      const found = await tools.inspector().flow(id);
      if (found === undefined) throw notFound(id);
      return presentFlow(found, tools.redactor);
    },
  }),
  route({
    method: "POST",
    path: "flows/:id/cancel",
    right: "operate",
    body: ["reason", "confirm"],
    parse: (input, { environment }) => {
      const parsed = { id: idOf(input), reason: reasonOf(input.body, true) ?? "" };
      requireConfirmation(input.body, environment, "Cancelling a flow");
      return parsed;
    },
    run: async (tools, { id, reason }, { actor }) => {
      if ((await tools.inspector().flow(id)) === undefined) throw notFound(id);
      return { cancelled: await tools.client.flows.cancel(id, { actor, reason }) };
    },
  }),
];
