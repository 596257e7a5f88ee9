/** Reads of the whole installation: health, stats, kinds, waiting tenants, workers and their stops, slow jobs, controls; and the series of the charts. */
import { seriesRanges, type Inspector, type QueueTenants } from "stint/inspect";
import { jsonText } from "../respond.ts";
import { nothing, namedIn, oneOf, textOf } from "../input.ts";
import { overviews, route } from "../route.ts";
import { presentTenants } from "../present-controls.ts";
import { presentOverview } from "../present.ts";
import { problemOf } from "../problem.ts";

/** Counts every job of a fair queue. Null: it has too many for the time limit, and the sample has to do. */
async function exactTenants(inspector: Inspector, queue: string): Promise<QueueTenants["tenants"] | null> {
  try {
    return (await inspector.tenants(queue, { limit: 1_000 })).tenants;
  } catch (error) {
    if (problemOf(error)?.code === "TOO_SLOW") return null;
    throw error;
  }
}

export const overviewRoutes = [
  ...overviews.map((name) =>
    route({
      method: "GET",
      path: name,
      right: "view",
      parse: nothing,
      run: async (tools, _, visitor) =>
        jsonText(presentOverview(name, await tools.overviews[name](), visitor, tools.redactor)),
    }),
  ),
  route({
    method: "GET",
    path: "queues/tenants",
    right: "view",
    query: ["queue"],
    parse: ({ query }) => textOf(query.get("queue"), "queue", 128),
    run: async (tools, queue, visitor) => {
      const inspector = tools.inspector();
      const found = await inspector.waitingTenants({ queue });
      const exact = found.fair === true ? await exactTenants(inspector, queue) : null;
      return presentTenants(found, exact, visitor, tools.redactor);
    },
  }),
  route({
    method: "GET",
    path: "series",
    right: "view",
    query: ["queue", "kind", "range"],
    parse: ({ query }) => {
      const range = oneOf(query.get("range"), "range", seriesRanges);
      return {
        ...namedIn(query, "queue"),
        ...namedIn(query, "kind"),
        ...(range === undefined ? {} : { range }),
      };
    },
    run: async (tools, options) => await tools.inspector().series(options),
  }),
];
